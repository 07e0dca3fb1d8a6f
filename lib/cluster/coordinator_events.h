// What the coordinator tells the process around it: files to write, lines to print. Called from within the
// coordinator's own calls, on its thread; implementations must not call back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/metric_tree.h"
#include "cluster/staleness.h"
#include "proto-free-wire/messages/snapshot_done.h"

namespace dtrain::cluster {

struct StepReport {
  int64_t step = 0;  // the step that turned version `step` into `step` + 1
  Metrics metrics;
  double rate = 0.0;           // learning rate
  std::optional<double> norm;  // of the mean gradient, before clipping, where the servers sent partial sums
  bool last = false;           // the run ends here, though more steps were planned
  std::optional<StalenessReport> staleness;  // of the run so far, in modes that have any
};

class CoordinatorEvents {
 public:
  virtual ~CoordinatorEvents() = default;
  // All tasks are there and are told to load version `step`; `threads` is what one micro-batch is computed with.
  virtual void on_begin(int64_t step, uint32_t threads) = 0;
  // Every step once, in order, when all servers have committed it.
  virtual void on_step(const StepReport& report) = 0;
  virtual void on_eval(int64_t version, const Metrics& metrics) = 0;
  // All servers have written version `version`: files[i] is server i's. Completes the checkpoint (manifest, rename);
  // an error is treated as a server's.
  virtual Status on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) = 0;
  // Some server could not write it, or the run ends before all have.
  virtual void on_snapshot_abandoned(int64_t version, const std::string& reason) = 0;
  // A guest's values are `tensor` since this version: the run is no longer what its run file says.
  virtual void on_put(int64_t version, const std::string& tensor) {
    (void)version;
    (void)tensor;
  }
  // The run is over for all tasks; the last call.
  virtual void on_stopped(ExitCode code, const std::string& reason) = 0;
};

}  // namespace dtrain::cluster
