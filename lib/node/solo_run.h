// A whole run in this process and, but for reading data and writing files, on this thread: one worker and one server
// that call each other directly, without a socket.
#pragma once

#include <atomic>

#include "node/task.h"

namespace dtrain::node {

// Rank 0 of ClusterSpec::local(). `interrupts` counts the user's wishes to end; it is read, not reset.
ExitCode run_solo(const RunDefinition& run, TaskSetup setup, FileSystem& files, const Clock& clock, Log& log,
                  const std::atomic<int>& interrupts);

}  // namespace dtrain::node
