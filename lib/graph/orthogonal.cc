#include "graph/orthogonal.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/vectorize.h"

namespace dtrain::graph {
namespace {

constexpr size_t kLanes = 16;

// A vector's length is a multiple of the lanes, with zeros at its end.
DTRAIN_CLONES double dot(const double* a, const double* b, size_t n) {
  double sum[kLanes] = {};
  for (size_t i = 0; i < n; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) sum[l] += a[i + l] * b[i + l];
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t l = 0; l < width; ++l) sum[l] += sum[l + width];
  return sum[0];
}

DTRAIN_CLONES void subtract(double* a, const double* b, double times, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) a[i] -= times * b[i];
}

std::vector<float> orthogonal(const Initializer& initializer, uint64_t seed, std::string_view name) {
  const auto rows = static_cast<size_t>(initializer.rows), columns = static_cast<size_t>(initializer.columns);
  std::vector<float> matrix(rows * columns);
  graph::initialize(Initializer::normal(1.0f), seed, name, 0, matrix);
  // The vectors are rows, or columns where those are fewer.
  const bool by_row = rows <= columns;
  const size_t vectors = std::min(rows, columns), length = std::max(rows, columns);
  const size_t padded = (length + kLanes - 1) / kLanes * kLanes;
  const auto element = [&](size_t v, size_t i) -> float& { return matrix[by_row ? v * columns + i : i * columns + v]; };
  std::vector<double> basis(vectors * padded, 0.0);
  for (size_t v = 0; v < vectors; ++v) {
    double* vector = basis.data() + v * padded;
    for (size_t i = 0; i < length; ++i) vector[i] = element(v, i);
    for (size_t u = 0; u < v; ++u) {
      const double* unit = basis.data() + u * padded;
      subtract(vector, unit, dot(unit, vector, padded), padded);
    }
    const double norm = std::sqrt(dot(vector, vector, padded));
    DTRAIN_CHECK(norm > 0, "{} does not span its space", name);
    for (size_t i = 0; i < length; ++i) {
      vector[i] /= norm;
      element(v, i) = static_cast<float>(static_cast<double>(initializer.spread) * vector[i]);
    }
  }
  return matrix;
}

}  // namespace

void OrthogonalMatrices::initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                                    std::span<float> out) {
  DTRAIN_CHECK(initializer.kind == Initializer::Kind::kOrthogonal, "{} is not made as a whole", name);
  const std::lock_guard lock(mutex_);
  if (name_ != name || seed_ != seed) {
    matrix_ = orthogonal(initializer, seed, name);
    name_ = name;
    seed_ = seed;
  }
  DTRAIN_CHECK(first >= 0 && static_cast<size_t>(first) + out.size() <= matrix_.size(), "elements that {} has not got",
               name);
  std::copy_n(matrix_.begin() + first, out.size(), out.begin());
}

}  // namespace dtrain::graph
