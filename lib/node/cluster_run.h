// One task of a cluster in this process: sockets on this thread, the worker's computation on another.
#pragma once

#include <atomic>
#include <vector>

#include "net/mutual_proof.h"
#include "node/task.h"

namespace dtrain::node {

struct ClusterRunOptions {
  std::vector<int> listen_fds;  // inherited sockets that are bound to this task's address; none: bind it here
  bool allow_guests = false;  // from other hosts too
  bool computes = false;      // has the worker role: says its data and arithmetic in the handshake
  // Who asks this task to end asks the others at the same time: so long the coordinator has to end the run for all,
  // before a task that takes part in it leaves by itself.
  Nanoseconds interrupt_grace = 0;
  net::ProofMeans proof;  // of the run's secret, if it has one
};

// `interrupts` counts the user's wishes to end; it is read, not reset.
Result<ExitCode> run_in_cluster(const RunDefinition& run, const cluster::ClusterSpec& spec, TaskSetup setup,
                                const ClusterRunOptions& options, FileSystem& files, const Clock& clock, Log& log,
                                const std::atomic<int>& interrupts);

}  // namespace dtrain::node
