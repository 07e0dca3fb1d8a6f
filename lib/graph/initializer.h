// How a parameter begins. Values are a pure function of (seed, parameter's name, element), so that any task can make
// any range of any parameter without asking another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dtrain::graph {

struct Initializer {
  // kTruncatedNormal: cut at two standard deviations on each side. kOrthogonal: of a matrix, see graph/orthogonal.h.
  enum class Kind { kConstant, kUniform, kNormal, kTruncatedNormal, kOrthogonal };
  // Orthogonal matrices are made whole, at a cost of elements times the smaller extent; this bounds it.
  static constexpr int64_t kMaxOrthogonal = int64_t{1} << 24;

  Kind kind = Kind::kConstant;
  float center = 0.0f;  // the constant; the mean
  float spread = 0.0f;  // uniform in [center − spread, center + spread); standard deviation; orthogonal's gain
  int64_t rows = 0, columns = 0;  // of an orthogonal matrix

  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  static Initializer uniform(float bound) { return {Kind::kUniform, 0.0f, bound}; }
  static Initializer normal(float deviation) { return {Kind::kNormal, 0.0f, deviation}; }
  // ±1/√fan_in, PyTorch's default for weights and biases of linear and convolution layers.
  static Initializer fan_in(double fan_in);
};

// Elements first … first + out.size() − 1, in row-major order, of the parameter called `name`. Not of an orthogonal
// matrix: those come from OrthogonalMatrices.
void initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                std::span<float> out);

}  // namespace dtrain::graph
