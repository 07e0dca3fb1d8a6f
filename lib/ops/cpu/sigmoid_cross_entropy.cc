// sigmoid_cross_entropy: elements in fp32, summed in fp64 over sixteen lanes a sample.
#include "base/vectorize.h"
#include "ops/cpu/elementwise_loss.h"
#include "ops/cpu/vector_math.h"
#include "ops/loss.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

// ln(1 + e) for e in [0, 1] within 2 ulp: 2·atanh(e/(2 + e)) by its power series up to the 17th power, whose remainder
// is below 3⁻¹⁸/19 of it.
[[gnu::always_inline]] inline float log_one_plus(float e) {
  const float s = e / (2.0f + e), s2 = s * s;
  float sum = 1.0f / 17;
  sum = sum * s2 + 1.0f / 15;
  sum = sum * s2 + 1.0f / 13;
  sum = sum * s2 + 1.0f / 11;
  sum = sum * s2 + 1.0f / 9;
  sum = sum * s2 + 1.0f / 7;
  sum = sum * s2 + 1.0f / 5;
  sum = sum * s2 + 1.0f / 3;
  sum = sum * s2 + 1.0f;
  return 2.0f * s * sum;
}

// t·ln(1/σ(z)) + (1 − t)·ln(1/σ(−z)), of which one logarithm is the other less |z|.
[[gnu::always_inline]] inline float loss_of(float z, float t) {
  const float size = z < 0.0f ? -z : z;
  const float away = z > 0.0f ? z - z * t : -(z * t);
  return away + log_one_plus(exponential(-size));
}

DTRAIN_CLONES
double losses(const float* z, const float* t, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(loss_of(z[i + l], t[i + l]));
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += static_cast<double>(loss_of(z[i + l], t[i + l]));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

DTRAIN_CLONES
void slopes(const float* z, const float* t, float factor, float* dz, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float e = exponential(z[i] < 0.0f ? z[i] : -z[i]), q = 1.0f / (1.0f + e);
    dz[i] = ((z[i] < 0.0f ? e * q : q) - t[i]) * factor;
  }
}

struct CrossEntropy {
  explicit CrossEntropy(const OpRequest&) {}
  static constexpr double kFactor = 1.0;
  static double sum(const float* z, const float* t, int64_t n) { return losses(z, t, n); }
  static void gradient(const float* z, const float* t, float factor, float* dz, int64_t n) {
    slopes(z, t, factor, dz, n);
  }
};

const Registration kOp("cpu", "sigmoid_cross_entropy", std::make_unique<OwnOp<ElementwiseLossKernel<CrossEntropy>>>());

}  // namespace
}  // namespace dtrain::ops::cpu
