// Sums of floats whose order is fixed and still leaves the machine room to add many at a time: sixty-four partial sums,
// then a tree over them. For functions that are compiled for each instruction set (base/vectorize.h).
#pragma once

#include <cstdint>

namespace dtrain::ops::cpu {

// Σ term(i) for i < n. `term` must be always inline, and cheap to compute sixteen at a time.
template <typename F>
[[gnu::always_inline]] inline float lane_sum(int64_t n, F term) {
  constexpr int64_t kLanes = 16;
  // Four arrays of one vector each: the compiler keeps such in registers, a longer one it would not.
  float a[kLanes] = {}, b[kLanes] = {}, c[kLanes] = {}, d[kLanes] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) a[l] += term(i + l);
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) b[l] += term(i + kLanes + l);
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) c[l] += term(i + 2 * kLanes + l);
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) d[l] += term(i + 3 * kLanes + l);
  }
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) a[l] += term(i + l);
  for (int64_t l = 0; i + l < n; ++l) b[l] += term(i + l);
#pragma omp simd
  for (int64_t l = 0; l < kLanes; ++l) a[l] = (a[l] + b[l]) + (c[l] + d[l]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) a[l] += a[l + width];
  return a[0];
}

}  // namespace dtrain::ops::cpu
