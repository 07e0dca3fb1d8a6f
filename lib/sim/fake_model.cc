#include "sim/fake_model.h"

namespace dtrain::sim {
namespace {

uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

uint32_t place(uint32_t salt, int64_t step, uint32_t k, uint32_t p) {
  return mix(salt ^ mix(static_cast<uint32_t>(step) * 64 + k) ^ mix(p + 1) * 3);
}

// In [-1, 1), with exponents spread.
float noise(uint32_t word) {
  const float unit = static_cast<float>(static_cast<int32_t>(word)) * 0x1.0p-31f;
  return unit * unit * unit;
}

}  // namespace

Values initial_values(const std::vector<ParameterInfo>& parameters) {
  Values out;
  for (uint32_t p = 0; p < parameters.size(); ++p) {
    std::vector<float>& values = out.emplace_back(static_cast<size_t>(parameters[p].shape.elements()));
    const uint32_t salt = place(17, 0, 0, p);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = noise(mix(salt + i));
  }
  return out;
}

float probe(const Values& parameters) {
  constexpr size_t kSamples = 37;  // in every chunk of a large parameter there are some
  float sum = 0.0f, weight = 1.0f;
  for (const std::vector<float>& values : parameters) {
    const size_t stride = values.size() / kSamples + 1;
    for (size_t i = 0; i < values.size(); i += stride) sum += values[i] * weight;
    sum += values.back();
    weight *= 0.75f;
  }
  return sum;
}

void micro_gradient(const std::vector<ParameterInfo>& parameters, const Values& values, float probe, int64_t step,
                    uint32_t k, ParameterIndex p, std::vector<float>& out) {
  const auto index = static_cast<size_t>(p);
  const std::vector<float>& from = values[index];
  out.resize(from.size());
  const uint32_t salt = place(29, step, k, static_cast<uint32_t>(p));
  const bool statistic = parameters[index].kind == ParameterKind::kStatistic;
  const float keep = statistic ? 0.9f : 0.05f;
  const float common = 0.001f * probe;
  for (uint32_t i = 0; i < from.size(); ++i) out[i] = noise(mix(salt + i)) + keep * from[i] + common;
}

Metrics micro_metrics(float probe, wire::StepKind kind, int64_t step, uint32_t k) {
  const uint32_t word = place(kind == wire::StepKind::kEval ? 41 : 43, step, k, 0);
  const double samples = 1 + word % 7;
  return {static_cast<double>(noise(word)) * 0.1 + static_cast<double>(probe), samples,
          static_cast<double>((word >> 8) % (word % 7 + 1)), static_cast<double>((word >> 16) % (word % 7 + 1))};
}

double learning_rate(int64_t step) { return 0.05 / (1.0 + 0.1 * static_cast<double>(step)); }

}  // namespace dtrain::sim
