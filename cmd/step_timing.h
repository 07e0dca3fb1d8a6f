// Training steps that are timed: what the parts of `dtrain benchmark` that time steps take, and one process that does
// so, alone or as a task of a cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/spec.h"
#include "flags.h"
#include "node/run_definition.h"
#include "worker/engine/op_profile.h"

namespace dtrain::cmd {

struct StepSetup {
  RunFileFlags run_file;
  int threads = 1, steps = 20, warmup = 3;
  int workers = 1;      // each has train.batch samples
  bool strong = false;  // all together have train.batch samples
  bool own_data = false;

  // All but `workers` and `strong`.
  void declare(CLI::App& app);
  // For another process that times the same.
  std::vector<std::string> words() const;
  const char* data_text() const { return own_data ? "of the run file" : "synthetic"; }
};

struct StepTimes {
  std::vector<Nanoseconds> steps;  // none where this process is not the coordinator
  int64_t batch = 0;               // samples of a step
  int64_t peak_rss_mib = 0;        // of the largest process

  double median_rate() const;  // samples/s of the median step
};

// One task of a cluster; without one this process is all of the run.
struct TimedTask {
  std::optional<cluster::ClusterSpec> spec;
  cluster::Task self;
  std::vector<int> listen_fds = {};
};

// The run as it is to be timed. With made-up samples no file but the run file is read.
Result<node::RunDefinition> read_timed_run(const StepSetup& setup, const FileSystem& files);

enum class Feed { kFixedBatch, kReader };  // one batch that is loaded before the clock starts; the run's own reading
// Runs warm-up and timed steps and leaves nothing behind.
Result<StepTimes> time_steps(const node::RunDefinition& run, const StepSetup& setup, const TimedTask& task,
                             Feed feed = Feed::kFixedBatch, worker::OpProfile* profile = nullptr);

}  // namespace dtrain::cmd
