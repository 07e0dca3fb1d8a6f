// The key `params`, which every layer with parameters has: how each of them begins, whether and how fast it is trained,
// or which parameter of a layer above it is.
//
//   params = { weight = { init = "he", lr_mult = 2 }, bias = { frozen = true } }
#pragma once

#include <string>
#include <vector>

#include "graph/layer_setup.h"

namespace dtrain::graph {

// What holds for one parameter: the layer's own choice where `params` is silent.
struct ParameterChoice {
  Initializer initializer;
  ParameterKind kind = ParameterKind::kTrainable;
  float rate_multiplier = 1, decay_multiplier = 1;
  std::string share;  // as written, "tok.weight": it is that parameter; empty: it is one of its own
  config::Position share_position;
};

// One for each of setup.parameters(), in their order. Call it after Layer::setup() has succeeded; mistakes are reported
// to the setup's diagnostics.
std::vector<ParameterChoice> read_parameter_keys(LayerSetup& setup);

}  // namespace dtrain::graph
