// Which task computes which layer of a network whose layers lie on several tasks. Plain data.
#pragma once

#include <span>
#include <vector>

#include "graph/network.h"

namespace dtrain::graph {

struct Split {
  int tasks = 1;
  std::vector<int> task_of_layer;  // 0 … tasks − 1, by layer
};

// `given`: by layer the task that it names, -1 for none: such a layer is where the last of the layers is that it reads,
// and where it reads the sample only, on task 0.
Split split_layers(const Network& network, std::span<const int> given, int tasks);

// Of each parameter whether a layer of this task has it.
std::vector<bool> parameters_of(const Network& network, const Split& split, int task);

// How many micro-batches of a step a task needs under way so that all tasks have something to do: one for itself and
// for each task whose first layer comes behind its own, and one that travels.
int micro_batches_under_way(const Split& split, int task);

}  // namespace dtrain::graph
