// mse: differences and their squares in fp64, summed over sixteen lanes a sample.
#include "base/vectorize.h"
#include "ops/cpu/elementwise_loss.h"
#include "ops/loss.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

// Σ (z − t)².
DTRAIN_CLONES
double squares(const float* z, const float* t, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      const double d = static_cast<double>(z[i + l]) - static_cast<double>(t[i + l]);
      lanes[l] += d * d;
    }
  for (int64_t l = 0; i + l < n; ++l) {
    const double d = static_cast<double>(z[i + l]) - static_cast<double>(t[i + l]);
    lanes[l] += d * d;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

DTRAIN_CLONES
void differences(const float* z, const float* t, float factor, float* dz, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dz[i] = (z[i] - t[i]) * factor;
}

struct Squares {
  explicit Squares(const OpRequest&) {}
  static constexpr double kFactor = 2.0;
  static double sum(const float* z, const float* t, int64_t n) { return squares(z, t, n); }
  static void gradient(const float* z, const float* t, float factor, float* dz, int64_t n) {
    differences(z, t, factor, dz, n);
  }
};

const Registration kOp("cpu", "mse", std::make_unique<OwnOp<ElementwiseLossKernel<Squares>>>());

}  // namespace
}  // namespace dtrain::ops::cpu
