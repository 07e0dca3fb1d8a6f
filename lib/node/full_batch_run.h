// A whole run in this process and on this thread whose optimizer looks at all training samples at once (L-BFGS): a step
// is an iteration, of one evaluation of the loss and its gradient or more. The function stays the same from evaluation
// to evaluation: the samples come in one order, and dropout keeps the same elements.
#pragma once

#include <atomic>

#include "node/task.h"

namespace dtrain::node {

// As run_solo, which calls it: setup.coordinator says how far and where it is written, setup.events hears of it.
ExitCode run_full_batch(const RunDefinition& run, const TaskSetup& setup, FileSystem& files, Log& log,
                        const std::atomic<int>& interrupts);

}  // namespace dtrain::node
