// Computes a Work on one task of a network whose layers lie on several: all micro-batches of a step, as a pipeline,
// each segment of the stage as soon as what it reads has come. Of the segments that can run the one nearest the end
// does (backward before forward), and none computes a micro-batch before it has computed the ones before: that makes
// one forward, one backward of steps that are long enough (Narayanan et al. 2019, PipeDream, "1F1B"), and needs no
// schedule.
//
// It cannot block for ever: every task may run what the earliest unfinished micro-batch needs.
//
// Sums are those of StepEngine: micro-batch k of a parameter is final before micro-batch k + 1 is, so each is added
// along the tree as it comes. One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "graph/executable.h"
#include "worker/engine/batch_feed.h"
#include "worker/engine/gradient_pool.h"
#include "worker/engine/known_versions.h"
#include "worker/engine/step_port.h"
#include "worker/stage_exchange.h"

namespace dtrain::worker {

class StageEngine {
 public:
  struct Setup {
    uint64_t seed = 0;
    uint32_t micro_batches = 0;                      // K
    uint32_t eval_micro_batches = 0;                 // 0: no evaluations
    int64_t eval_samples = 0;                        // the last micro-batch may have fewer than the others
    uint32_t lanes = 1;                              // micro-batches that may be under way here
    std::vector<const float*> values;                // parameter memory, plain; of others' parameters null
    std::unique_ptr<graph::Executable> train, eval;  // eval may be null
    size_t sample_bytes = 0, label_bytes = 0;        // of a micro-batch
  };
  // All references outlive the engine; the exchange is connected with what the programs import and export.
  StageEngine(std::span<const ParameterInfo> parameters, Setup setup, BatchFeed& feed, GradientPool& pool,
              StageExchange& exchange);

  // `work` is all micro-batches of a step. An error of the port is handed on; everything else is the data's.
  Status run(const Work& work, StepPort& port);

  // How many gradient sets a step needs at the same time.
  static size_t sets_needed(uint32_t micro_batches, uint32_t lanes) { return ps::fold_depth(micro_batches) + lanes; }

 private:
  // A micro-batch under way.
  struct Micro {
    graph::Executable::Lane train, eval;  // memory of either
    Buffer samples, labels;
    int64_t valid = 0;
    Metrics metrics;
    bool forward_done = false;
    std::vector<graph::ParameterOutput> early;
  };
  class Follower;

  Status run_steps(const Work& work, StepPort& port);
  std::optional<size_t> runnable() const;
  Status run_segment(const Work& work, size_t segment, StepPort& port);
  Status start(const Work& work, uint32_t micro_batch, StepPort& port);
  void finish(const Work& work, uint32_t micro_batch);
  void leave(const Work& work, uint32_t micro_batch, graph::ParameterOutput out, StepPort& port);
  void add_metrics(const Work& work, uint32_t micro_batch, StepPort& port);
  graph::Executable& program(const Work& work) {
    return work.kind == wire::StepKind::kTrain ? *setup_.train : *setup_.eval;
  }
  // What is computed in one go leaves nothing for later.
  Micro& micro(uint32_t micro_batch) { return lanes_[next_.size() == 1 ? 0 : micro_batch % lanes_.size()]; }

  std::span<const ParameterInfo> parameters_;
  Setup setup_;
  BatchFeed& feed_;
  GradientPool& pool_;
  StageExchange& exchange_;
  std::deque<Micro> lanes_;
  KnownVersions versions_;

  // Of the work under way.
  const graph::Stage* stage_ = nullptr;
  uint32_t count_ = 0;                            // micro-batches
  std::vector<uint32_t> next_;                    // of each segment
  std::map<uint32_t, GradientPool::Lease> sets_;  // by the first micro-batch of the subtree whose sum they hold
  std::map<uint32_t, Metrics> sums_;              // likewise
};

}  // namespace dtrain::worker
