// What numbers a tensor is made of. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace dtrain::watch {

// Of the finite elements, in fp64; `norm` is Euclidean, `std` of the population. All 0 where there is none.
struct TensorStats {
  double min = 0, max = 0, mean = 0, std = 0, norm = 0;
  int64_t not_finite = 0;
};

TensorStats stats_of(std::span<const float> values);

}  // namespace dtrain::watch
