// How a parameter begins. Values are a pure function of (seed, parameter's name, element), so that any task can make
// any range of any parameter without asking another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dtrain::graph {

struct Initializer {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  float value = 0.0f;  // the constant; uniform in [−value, value); the normal's standard deviation, its mean is 0

  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  static Initializer uniform(float bound) { return {Kind::kUniform, bound}; }
  static Initializer normal(float deviation) { return {Kind::kNormal, deviation}; }
  // ±1/√fan_in, PyTorch's default for weights and biases of linear and convolution layers.
  static Initializer fan_in(double fan_in);
};

// Elements first … first + out.size() − 1, in row-major order, of the parameter called `name`.
void initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                std::span<float> out);

}  // namespace dtrain::graph
