#include "graph/split.h"

#include <algorithm>

#include "base/check.h"

namespace dtrain::graph {

Split split_layers(const Network& network, std::span<const int> given, int tasks) {
  const std::vector<NetworkLayer>& layers = network.layers();
  DTRAIN_CHECK(given.size() == layers.size(), "{} tasks for {} layers", given.size(), layers.size());
  Split split{tasks, {}};
  for (size_t i = 0; i < layers.size(); ++i) {
    const int last = *std::max_element(layers[i].inputs.begin(), layers[i].inputs.end());
    const int inherited = last == kSampleInput ? 0 : split.task_of_layer[static_cast<size_t>(last)];
    split.task_of_layer.push_back(given[i] >= 0 ? given[i] : inherited);
    DTRAIN_CHECK(split.task_of_layer.back() < tasks, "task {} of {}", split.task_of_layer.back(), tasks);
  }
  return split;
}

std::vector<bool> parameters_of(const Network& network, const Split& split, int task) {
  std::vector<bool> held(network.parameters().size(), false);
  for (size_t i = 0; i < network.layers().size(); ++i)
    if (split.task_of_layer[i] == task)
      for (ParameterIndex p : network.layers()[i].parameters) held[static_cast<size_t>(p)] = true;
  return held;
}

int micro_batches_under_way(const Split& split, int task) {
  std::vector<int> order;  // tasks by their first layer
  for (int t : split.task_of_layer)
    if (std::ranges::find(order, t) == order.end()) order.push_back(t);
  return static_cast<int>(order.end() - std::ranges::find(order, task)) + 1;
}

}  // namespace dtrain::graph
