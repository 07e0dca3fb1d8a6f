// The kernel of losses that are a mean over a sample's elements, each compared with its label: mse, huber,
// sigmoid_cross_entropy. `Loss` is made from the request and has
//   double sum(const float* z, const float* t, int64_t n) const      over n elements, in fp64
//   void gradient(const float* z, const float* t, float factor, float* dz, int64_t n) const      dz may be z or t
//   kFactor: what its gradient is multiplied by beside 1/elements; `factor` holds both
#pragma once

#include "ops/cpu/own_kernel.h"
#include "tensor/metrics.h"

namespace dtrain::ops::cpu {

template <typename Loss>
class ElementwiseLossKernel final : public OwnKernel {
 public:
  explicit ElementwiseLossKernel(const OpRequest& request) : OwnKernel(request), loss_(request) {
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
    const auto factor = static_cast<float>(Loss::kFactor / (static_cast<double>(samples_) * count));
    for_pieces(samples_, kGrain / per_sample_, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = s * per_sample_;
        losses[s] = loss_.sum(z + at, t + at, per_sample_) / count;
        if (out.size() > 1) loss_.gradient(z + at, t + at, factor, static_cast<float*>(out[1]) + at, per_sample_);
      }
    });
    double loss = 0;
    for (int64_t s = 0; s < context.valid; ++s) loss += losses[s];
    *static_cast<Metrics*>(out[0]) = {.loss = loss, .samples = static_cast<double>(context.valid)};
  }

 private:
  Loss loss_;
  int64_t samples_, per_sample_;
};

}  // namespace dtrain::ops::cpu
