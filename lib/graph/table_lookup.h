// Where a layer looks a sample's tokens up in a sparse table. Servers keep the table; a micro-batch is computed with
// the few of its rows that it uses, one behind the other, and with the tokens as numbers of these.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/parameter.h"

namespace dtrain::graph {

struct TableLookup {
  int layer = 0;
  ParameterIndex table = 0;
  std::vector<int32_t> places;  // of the tokens among a sample's elements, in the order of the layer's input
};

}  // namespace dtrain::graph
