// What each worker of a split network computes, sends and keeps, known before anything is started.
#pragma once

#include <map>
#include <vector>

#include "node/network_split.h"

namespace dtrain::node {

struct StageEstimate {
  size_t layers = 0;
  int64_t parameters = 0;                // trainable elements of its layers
  double forward_flops = 0;              // of a sample
  std::map<int, double> sends;           // bytes of a micro-batch's training, by the task that gets them
  double activations = 0, received = 0;  // memory: arenas of the micro-batches under way; what others sent
  double parameter_bytes = 0, gradients = 0;

  double memory() const { return activations + received + parameter_bytes + gradients; }
};

// By worker. Compiles the network once for each.
Result<std::vector<StageEstimate>> estimate_stages(const RunDefinition& run, const NetworkSplit& split,
                                                   uint32_t micro_batches);

}  // namespace dtrain::node
