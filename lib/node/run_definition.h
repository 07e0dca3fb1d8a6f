// A run as its files define it: configuration, network, optimizer, schedule, and once opened the data, all checked
// against each other. Immutable after reading and opening; what every command and every task of a run starts from.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "base/sha256.h"
#include "config/run_spec.h"
#include "config/table_reader.h"
#include "config/value.h"
#include "consistency/admission_rule.h"
#include "data/dataset.h"
#include "graph/network.h"
#include "node/learnt.h"
#include "node/run_compression.h"
#include "optim/optimizer_spec.h"
#include "optim/schedule.h"
#include "ps/norm_rounds.h"

namespace dtrain::node {

struct RunDefinition {
  config::Value root;  // the effective configuration
  config::RunSpec spec;
  std::optional<graph::Network> network;
  std::shared_ptr<const consistency::AdmissionRule> rule;
  bool speculate = false;
  RunCompression compression;
  optim::OptimizerSpec optimizer;         // of the servers
  optim::OptimizerSpec worker_optimizer;  // of workers, where they take steps of their own (local steps)
  std::shared_ptr<const optim::Schedule> schedule;
  Digest run_digest{};  // of what must be the same on every task and on every resume

  // Filled by open_data().
  std::shared_ptr<const data::Dataset> train, test;  // test may be null
  bool shuffle = true;                               // the training data, anew each epoch
  size_t train_threads = 1, test_threads = 1;        // that read them
  Digest data_digest{};

  // Reads and checks everything but the data. All mistakes are reported at once; where there are any, those of the data
  // too, which `files` is for.
  static Result<RunDefinition> read(const std::string& file, std::span<const std::string> overrides,
                                    const FileSystem& files);
  // The files and folders that [data.train] and [data.test] name.
  std::vector<config::TableReader::NamedPath> data_files() const;
  // Opens the data sets and checks them against the network.
  Status open_data(const FileSystem& files);
  // One data set by itself, which `table` describes, prepared as a model learnt it. Without labels where `labelled` is
  // false and the format can do without.
  Result<std::shared_ptr<const data::Dataset>> open_part(const config::Value& table, const char* part,
                                                         const FileSystem& files, const Learnt& learnt,
                                                         bool labelled = true) const;

  // What servers measure of a step. Where a worker's push is clipped, that is the worker's affair.
  ps::NormRounds norm_rounds() const {
    return ps::norm_rounds(optimizer.clip_norm && !rule->mode().single, optimizer.optimizer->norm_need());
  }
  // Whole rounds, where workers take steps of their own.
  int64_t total_steps() const {
    const int64_t steps = spec.train.total_steps(train->size()), stride = rule->mode().stride;
    return (steps + stride - 1) / stride * stride;
  }
  // What gives up the promise of the same bits on any cluster, for a person; nothing where it is kept.
  std::optional<std::string> why_not_reproducible() const;
  bool local_steps() const { return worker_optimizer.optimizer != nullptr; }
  // Of the servers: of an outer optimizer it stays the same.
  double rate_at(int64_t step, int64_t total) const {
    return local_steps() ? optimizer.rate : optimizer.rate * schedule->factor(step, total);
  }
  double worker_rate_at(int64_t step, int64_t total) const {
    return (local_steps() ? worker_optimizer.rate : optimizer.rate) * schedule->factor(step, total);
  }
};

// The number of micro-batches K of a step for a run file that does not fix it: the fewest that divide the batch and
// give every worker one (so that a batch of 128 on 3 workers has 4), at most one a sample.
int64_t automatic_micro_batches(int64_t batch, int64_t workers);
// K of a new run on so many workers: what the run file says, else the above.
int64_t micro_batches_of(const config::TrainSpec& train, int64_t workers);

}  // namespace dtrain::node
