#include "ps/chunk_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/vectorize.h"

namespace dtrain::ps {
namespace {

constexpr size_t kLanes = 16;

DTRAIN_CLONES void add_loop(float* out, const float* a, const float* b, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

DTRAIN_CLONES void subtract_loop(float* out, const float* a, const float* b, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = a[i] - b[i];
}

DTRAIN_CLONES void scale_loop(float* values, float by, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) values[i] *= by;
}

DTRAIN_CLONES void divide_loop(float* out, const float* values, float by, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = values[i] / by;
}

DTRAIN_CLONES void compensate_loop(float* out, const float* g, const float* now, const float* then, float lambda,
                                   size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = g[i] + lambda * g[i] * g[i] * (now[i] - then[i]);
}

// 1 where an exponent is all ones: infinity or NaN.
DTRAIN_CLONES uint32_t not_finite_loop(const float* values, size_t n) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    found |= static_cast<uint32_t>((bits & 0x7f800000u) == 0x7f800000u);
  }
  return found;
}

DTRAIN_CLONES void dot_loop(const float* a, const float* b, size_t n, double* lanes) {
  double sum[kLanes] = {};
  for (size_t i = 0; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) sum[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  }
  for (size_t l = 0; l < kLanes; ++l) lanes[l] = sum[l];
}

DTRAIN_CLONES void magnitudes_loop(const float* values, size_t n, double* lanes) {
  double sum[kLanes] = {};
  for (size_t i = 0; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l)
      sum[l] += static_cast<double>(values[i + l] < 0 ? -values[i + l] : values[i + l]);
  }
  for (size_t l = 0; l < kLanes; ++l) lanes[l] = sum[l];
}

DTRAIN_CLONES void add_multiple(double* sum, double factor, const float* v, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) sum[i] += factor * static_cast<double>(v[i]);
}

DTRAIN_CLONES void round_loop(float* out, const double* sum, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(sum[i]);
}

// The elements behind the last whole row of lanes join the lanes from the first on; then these are added pairwise.
template <typename Element>
double fold(double* lanes, size_t n, const Element& element) {
  const size_t whole = n / kLanes * kLanes;
  for (size_t i = whole; i < n; ++i) lanes[i - whole] += element(i);
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

}  // namespace

void add(std::span<float> into, std::span<const float> other) { add(into, into, other); }

void add(std::span<float> out, std::span<const float> a, std::span<const float> b) {
  DTRAIN_CHECK(out.size() == a.size() && out.size() == b.size());
  add_loop(out.data(), a.data(), b.data(), out.size());
}

void subtract(std::span<float> out, std::span<const float> a, std::span<const float> b) {
  DTRAIN_CHECK(out.size() == a.size() && out.size() == b.size());
  subtract_loop(out.data(), a.data(), b.data(), out.size());
}

void divide(std::span<float> out, std::span<const float> values, float by) {
  DTRAIN_CHECK(out.size() == values.size());
  divide_loop(out.data(), values.data(), by, out.size());
}

void scale(std::span<float> values, float by) { scale_loop(values.data(), by, values.size()); }

void compensate(std::span<float> out, std::span<const float> g, std::span<const float> now, std::span<const float> then,
                float lambda) {
  DTRAIN_CHECK(out.size() == g.size() && g.size() == now.size() && g.size() == then.size());
  compensate_loop(out.data(), g.data(), now.data(), then.data(), lambda, g.size());
}

bool all_finite(std::span<const float> values) { return not_finite_loop(values.data(), values.size()) == 0; }

double sum_of_squares(std::span<const float> values) { return dot(values, values); }

double dot(std::span<const float> a, std::span<const float> b) {
  DTRAIN_CHECK(a.size() == b.size());
  double lanes[kLanes];
  dot_loop(a.data(), b.data(), a.size(), lanes);
  return fold(lanes, a.size(), [&](size_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

double sum_of_magnitudes(std::span<const float> values) {
  double lanes[kLanes];
  magnitudes_loop(values.data(), values.size(), lanes);
  return fold(lanes, values.size(), [&](size_t i) { return std::abs(static_cast<double>(values[i])); });
}

void combine(std::span<float> out, std::span<const double> factors, std::span<const float* const> vectors) {
  DTRAIN_CHECK(factors.size() == vectors.size());
  constexpr size_t kTile = 512;
  double sum[kTile];
  for (size_t first = 0; first < out.size(); first += kTile) {
    const size_t n = std::min(kTile, out.size() - first);
    std::fill_n(sum, n, 0.0);
    for (size_t v = 0; v < vectors.size(); ++v) add_multiple(sum, factors[v], vectors[v] + first, n);
    round_loop(out.data() + first, sum, n);
  }
}

}  // namespace dtrain::ps
