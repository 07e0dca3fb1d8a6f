// Networks for tests, from the text of a [network] table.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "config/load.h"
#include "config/network_spec.h"
#include "graph/network.h"

namespace dtrain::graph {

struct NetworkText {
  std::optional<Network> network;
  std::string error;  // what a user would read where there is no network
};

// `table` is what stands in [network] (and below it [network.block.x]).
inline NetworkText read_network(const std::string& table) {
  const Result<config::Value> root = config::load_text("[network]\n" + table, "net.toml");
  if (!root) return {std::nullopt, root.error().message};
  config::Diagnostics diagnostics;
  const config::NetworkSpec spec = config::expand_network(*root->find("network"), diagnostics);
  NetworkText result;
  result.network = Network::build(spec, diagnostics);
  if (!diagnostics.ok()) result.error = diagnostics.status().error().message;
  EXPECT_EQ(result.network.has_value(), diagnostics.ok());
  return result;
}

inline NetworkText read_network(const std::string& input, const std::string& layers) {
  return read_network(fmt::format("input = {}\nlayers = [\n{}\n]\n", input, layers));
}

}  // namespace dtrain::graph
