// How much memory the tasks of a run will take, in bytes, known before anything is started.
#pragma once

#include "base/result.h"
#include "node/run_definition.h"
#include "ps/block_table.h"

namespace dtrain::node {

struct MemoryEstimate {
  double activations = 0, parameters = 0, gradients = 0;  // of a worker with the largest share
  double rows = 0;       // of it: what a micro-batch uses of sparse tables, and gradients of these on their way
  double own_steps = 0;  // of it: the copy and the slots of steps that it takes by itself
  // Of the fullest server, without the rows of sparse tables that it comes to keep.
  double versions = 0, slots = 0, sums = 0;
  double behind = 0;  // of it: what workers that are not all at one version cost

  double worker() const { return activations + parameters + gradients + own_steps + rows; }
  double server() const { return versions + slots + sums + behind; }
  double process() const { return worker() + server(); }  // of a run in one
};

// Compiles the network for one micro-batch to know its plan.
Result<MemoryEstimate> estimate_memory(const RunDefinition& run, const ps::BlockTable& table, uint32_t micro_batches,
                                       uint32_t workers);
// The same for a new run of so many workers, on servers that share its parameters.
Result<MemoryEstimate> estimate_memory_of(const RunDefinition& run, uint32_t workers, uint32_t servers);
// Of a run in one process: the worker's parameters are the server's only version, and of one micro-batch a step each
// gradient is used before the next is made.
Result<MemoryEstimate> estimate_memory_alone(const RunDefinition& run, const ps::BlockTable& table,
                                             uint32_t micro_batches);

}  // namespace dtrain::node
