// An exponential moving average of the weights beside any optimizer, in a slot of its own: after each step ema = decay
// · ema + (1 − decay) · w (Polyak and Juditsky 1992; as TensorFlow's ExponentialMovingAverage). It begins with the
// initial weights.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace dtrain::optim {

constexpr const char* kWeightAverageSlot = "ema";

// 0 < decay < 1. The optimizer's own slots come first.
std::shared_ptr<const Optimizer> with_weight_average(std::shared_ptr<const Optimizer> optimizer, double decay);

}  // namespace dtrain::optim
