#include "graph/network.h"

#include <algorithm>

namespace dtrain::graph {

int64_t Network::trainable_elements() const {
  int64_t n = 0;
  for (const NetworkLayer& l : layers_) n += l.parameter_elements;
  return n;
}

int64_t Network::rows_used(ParameterIndex table, int64_t samples) const {
  int64_t tokens = 0;
  for (const TableLookup& l : lookups_)
    if (l.table == table) tokens += samples * static_cast<int64_t>(l.places.size());
  return std::min(tokens, parameters_[static_cast<size_t>(table)].shape[0]);
}

double Network::forward_flops() const {
  double flops = 0;
  for (const NetworkLayer& l : layers_) flops += l.forward_flops;
  return flops;
}

const Shape& Network::output() const {
  const int from = layers_.back().inputs.front();
  return from == kSampleInput ? input_ : layers_[static_cast<size_t>(from)].output;
}

void Network::initialize(ParameterIndex parameter, uint64_t seed, int64_t first, std::span<float> out) const {
  const auto i = static_cast<size_t>(parameter);
  if (initializers_[i].kind == Initializer::Kind::kOrthogonal)
    orthogonal_->initialize(initializers_[i], seed, parameters_[i].name, first, out);
  else
    graph::initialize(initializers_[i], seed, parameters_[i].name, first, out);
}

}  // namespace dtrain::graph
