// How much memory the tasks of a run will take, in bytes, known before anything is started.
#pragma once

#include "base/result.h"
#include "node/run_definition.h"
#include "ps/block_table.h"

namespace dtrain::node {

struct MemoryEstimate {
  double activations = 0, parameters = 0, gradients = 0;  // of a worker with the largest share
  double versions = 0, slots = 0, sums = 0;               // of the fullest server

  double worker() const { return activations + parameters + gradients; }
  double server() const { return versions + slots + sums; }
};

// Compiles the network for one micro-batch to know its plan.
Result<MemoryEstimate> estimate_memory(const RunDefinition& run, const ps::BlockTable& table, uint32_t micro_batches,
                                       uint32_t workers);

}  // namespace dtrain::node
