// Samples that are made up to fit a network, whatever it takes: for timing steps without any data. Immutable.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "graph/network.h"

namespace dtrain::node {

// Each sample is a function of seed and index: normal deviates, and tokens where the network looks elements up, drawn
// evenly of those that it knows; labels likewise, of the kind that the loss takes.
std::shared_ptr<const data::Dataset> synthetic_data(const graph::Network& network, int64_t samples, uint64_t seed);

}  // namespace dtrain::node
