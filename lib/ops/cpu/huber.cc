// huber: differences in fp64, summed over sixteen lanes a sample.
#include "base/vectorize.h"
#include "ops/cpu/elementwise_loss.h"
#include "ops/loss.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

[[gnu::always_inline]] inline double loss_of(float z, float t, double delta) {
  const double d = static_cast<double>(z) - static_cast<double>(t), size = d < 0 ? -d : d;
  const double square = 0.5 * d * d, line = delta * (size - 0.5 * delta);
  return size <= delta ? square : line;
}

DTRAIN_CLONES
double losses(const float* z, const float* t, double delta, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += loss_of(z[i + l], t[i + l], delta);
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += loss_of(z[i + l], t[i + l], delta);
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

DTRAIN_CLONES
void slopes(const float* z, const float* t, float delta, float factor, float* dz, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float d = z[i] - t[i];
    d = d > delta ? delta : d;
    d = d < -delta ? -delta : d;
    dz[i] = d * factor;
  }
}

struct HuberLoss {
  explicit HuberLoss(const OpRequest& request) : delta(request.attributes_as<Huber>().delta) {}
  static constexpr double kFactor = 1.0;
  double sum(const float* z, const float* t, int64_t n) const { return losses(z, t, static_cast<double>(delta), n); }
  void gradient(const float* z, const float* t, float factor, float* dz, int64_t n) const {
    slopes(z, t, delta, factor, dz, n);
  }
  float delta;
};

const Registration kOp("cpu", "huber", std::make_unique<OwnOp<ElementwiseLossKernel<HuberLoss>>>());

}  // namespace
}  // namespace dtrain::ops::cpu
