// From a network to a program: forward in the order of the layers, then backward in the reverse order.
//
// The gradient of a value with several readers is the sum of theirs, last reader first. None is made for the sample,
// nor for what lies before the first layer with something to train. The same order holds for a parameter of several
// layers. Ops whose outputs nobody reads, such as the gradient of frozen weights, are left out. A layer that is nothing
// but an activation becomes part of the layer before it where nobody else reads that.
#pragma once

#include <string>

#include "graph/network.h"
#include "graph/program.h"

namespace dtrain::graph {

// `backend` is asked only which fused forms it has.
Program lower(const Network& network, Mode mode, int64_t micro_batch, const std::string& backend);

}  // namespace dtrain::graph
