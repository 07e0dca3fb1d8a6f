// What one layer, called "x", makes of a sample: shapes, parameters, FLOPs, or the error that a user reads.
#pragma once

#include <string>
#include <vector>

#include "tests/graph/network_text.h"

namespace dtrain::graph {

struct LayerFacts {
  Shape output;
  std::vector<ParameterInfo> parameters;
  double flops = 0;
};

// `layer` is an inline table without a name, on the line net.toml:4. `before` holds layers that stand above it.
inline NetworkText network_around(const std::string& input, std::string layer, const std::string& before) {
  layer.insert(layer.find('{') + 1, " name = \"x\",");
  return read_network(input, before + layer + R"(,
{ type = "flatten" },
{ type = "linear", units = 2 },
{ type = "softmax_cross_entropy" },)");
}

inline LayerFacts layer_facts(const std::string& input, const std::string& layer, const std::string& before = "") {
  const NetworkText read = network_around(input, layer, before);
  EXPECT_TRUE(read.network) << read.error;
  if (!read.network) return {};
  LayerFacts facts;
  for (const NetworkLayer& l : read.network->layers()) {
    if (l.name != "x") continue;
    facts.output = l.output;
    facts.flops = l.forward_flops;
    for (ParameterIndex p : l.parameters)
      facts.parameters.push_back(read.network->parameters()[static_cast<size_t>(p)]);
  }
  return facts;
}

inline std::string layer_error(const std::string& input, const std::string& layer, const std::string& before = "") {
  const NetworkText read = network_around(input, layer, before);
  EXPECT_FALSE(read.network);
  return read.error;
}

}  // namespace dtrain::graph
