#include "compress/chunk_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/vectorize.h"

namespace dtrain::compress {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kRun = 1024;  // summed in fp32, then in fp64

DTRAIN_CLONES void residual_loop(float* residual, const float* values, size_t n, float* lanes, float* squares) {
  float sums[kLanes] = {}, products[kLanes] = {};
  for (size_t i = 0; i + kLanes <= n; i += kLanes) {
    DTRAIN_INDEPENDENT
    for (size_t l = 0; l < kLanes; ++l) {
      const float x = residual[i + l] + values[i + l];
      residual[i + l] = x;
      sums[l] += std::fabs(x);
      products[l] += x * x;
    }
  }
  for (size_t l = 0; l < kLanes; ++l) {
    lanes[l] = sums[l];
    squares[l] = products[l];
  }
}

DTRAIN_CLONES void sizes_loop(const float* values, size_t n, float* lanes, float* squares) {
  float sums[kLanes] = {}, products[kLanes] = {};
  for (size_t i = 0; i + kLanes <= n; i += kLanes) {
    DTRAIN_INDEPENDENT
    for (size_t l = 0; l < kLanes; ++l) {
      const float x = values[i + l];
      sums[l] += std::fabs(x);
      products[l] += x * x;
    }
  }
  for (size_t l = 0; l < kLanes; ++l) {
    lanes[l] = sums[l];
    squares[l] = products[l];
  }
}

DTRAIN_CLONES void squares_loop(const float* values, size_t n, double* lanes) {
  double sums[kLanes] = {};
  for (size_t i = 0; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const double x = values[i + l];
      sums[l] += x * x;
    }
  }
  for (size_t l = 0; l < kLanes; ++l) lanes[l] = sums[l];
}

// The lanes of a run of m values, and what is left of it behind whole rows of lanes.
void add_run(const float* values, size_t m, float* lanes, float* squares, Sizes& sizes) {
  for (size_t i = m / kLanes * kLanes; i < m; ++i) {
    const float x = values[i];
    lanes[i % kLanes] += std::fabs(x);
    squares[i % kLanes] += x * x;
  }
  for (size_t l = 0; l < kLanes; ++l) {
    sizes.sum += static_cast<double>(lanes[l]);
    sizes.squares += static_cast<double>(squares[l]);
  }
}

}  // namespace

Sizes sizes_of(const float* values, size_t n) {
  Sizes sizes;
  for (size_t first = 0; first < n; first += kRun) {
    const size_t m = std::min(kRun, n - first);
    float lanes[kLanes] = {}, squares[kLanes] = {};
    sizes_loop(values + first, m, lanes, squares);
    add_run(values + first, m, lanes, squares, sizes);
  }
  return sizes;
}

Sizes add_to_residual(float* residual, const float* values, size_t n) {
  Sizes sizes;
  for (size_t first = 0; first < n; first += kRun) {
    const size_t m = std::min(kRun, n - first);
    float lanes[kLanes] = {}, squares[kLanes] = {};
    residual_loop(residual + first, values + first, m, lanes, squares);
    for (size_t i = m / kLanes * kLanes; i < m; ++i) residual[first + i] += values[first + i];
    add_run(residual + first, m, lanes, squares, sizes);
  }
  return sizes;
}

double sum_of_squares(const float* values, size_t n) {
  double lanes[kLanes] = {};
  squares_loop(values, n, lanes);
  for (size_t i = n / kLanes * kLanes; i < n; ++i) lanes[i % kLanes] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace dtrain::compress
