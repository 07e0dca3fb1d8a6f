// mse: differences and their squares in fp64, summed over sixteen lanes a sample.
#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
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
void gradient(const float* z, const float* t, float factor, float* dz, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dz[i] = (z[i] - t[i]) * factor;
}

class MseKernel final : public OwnKernel {
 public:
  explicit MseKernel(const OpRequest& request) : OwnKernel(request) {
    samples_ = request.inputs[0].shape[0];
    per_sample_ = request.inputs[0].shape.elements() / samples_;
    DTRAIN_CHECK(request.inputs[1].shape.elements() == samples_ * per_sample_);
    scratch_bytes = static_cast<size_t>(samples_) * sizeof(double);
    if (request.outputs.size() > 1) in_place = {{1, 0}, {1, 1}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override {
    const auto *z = static_cast<const float*>(in[0]), *t = static_cast<const float*>(in[1]);
    auto* losses = static_cast<double*>(scratch);
    const auto count = static_cast<double>(per_sample_);
    const auto factor = static_cast<float>(2.0 / (static_cast<double>(samples_) * count));
    for_pieces(samples_, kGrain / per_sample_, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = s * per_sample_;
        losses[s] = squares(z + at, t + at, per_sample_) / count;
        if (out.size() > 1) gradient(z + at, t + at, factor, static_cast<float*>(out[1]) + at, per_sample_);
      }
    });
    double loss = 0;
    for (int64_t s = 0; s < context.valid; ++s) loss += losses[s];
    auto* metrics = static_cast<double*>(out[0]);
    metrics[0] = loss;
    metrics[1] = static_cast<double>(context.valid);
    metrics[2] = 0;
  }

 private:
  int64_t samples_, per_sample_;
};

const Registration kOp("cpu", "mse", std::make_unique<OwnOp<MseKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
