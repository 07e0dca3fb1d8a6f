// A cluster of processes on this machine whose steps are timed.
#pragma once

#include <string>

#include "step_timing.h"

namespace dtrain::cmd {

struct ClusterShape {
  int workers = 1;
  cluster::Placement placement = cluster::Placement::kWorkers;
  int ps = 0;  // where the placement has any

  bool has_ps() const { return placement != cluster::Placement::kWorkers; }
  // One worker that holds the parameters itself: a run in one process.
  bool alone() const { return workers == 1 && !has_ps(); }
};

// Starts them, waits for their end and gathers what they print. `setup.workers` are those of the shape.
Result<StepTimes> time_cluster(const StepSetup& setup, const ClusterShape& shape);

// What such a process prints for the one that started it.
void print_times(const StepTimes& times);

}  // namespace dtrain::cmd
