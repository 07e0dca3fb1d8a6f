// The largest of a row of floats, sixteen at a time. For functions that are compiled for each instruction set
// (base/vectorize.h).
#pragma once

#include <cstdint>

namespace dtrain::ops::cpu {

// Of n ≥ 1 values, NaN left out where there is another.
[[gnu::always_inline]] inline float lane_maximum(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  for (float& lane : lanes) lane = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  float top = lanes[0];
  for (float lane : lanes) top = lane > top ? lane : top;
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

}  // namespace dtrain::ops::cpu
