// add: one pass over all stored elements, whatever the layout, padding included (0 + 0 = 0 and f(0) = 0).
#include <array>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

DTRAIN_CLONES
void add_two(const float* a, const float* b, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

// x below 0 times `slope`; NaN stays.
DTRAIN_CLONES
void leak(float* y, float slope, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0.0f ? y[i] * slope : y[i];
}

// As leak with slope 0, but −∞ gives 0.
DTRAIN_CLONES
void rectify(float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

class AddKernel final : public OwnKernel {
 public:
  explicit AddKernel(const OpRequest& request) : OwnKernel(request), add_(request.attributes_as<Add>()) {
    // The first layout that is not plain: the convolution behind an addition wants it too.
    LayoutPtr layout;
    for (const TensorDesc& x : request.inputs)
      if (!layout) layout = x.layout;
    input_layouts.assign(request.inputs.size(), layout);
    outputs[0].layout = layout;
    stored_ = static_cast<int64_t>(outputs[0].bytes() / sizeof(float));
    in_place = {{0, 0}, {0, 1}};  // a later input would be overwritten before it is read
  }

  static std::optional<std::string> unsupported(const OpRequest& request) {
    const ActivationKind kind = request.attributes_as<Add>().activation.kind;
    if (kind != ActivationKind::kNone && kind != ActivationKind::kRelu && kind != ActivationKind::kLeakyRelu)
      return "a fused activation other than relu and leaky_relu";
    return std::nullopt;
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    constexpr int64_t kBlock = 2048;  // stays in the first cache over all inputs
    for_pieces(stored_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        float* y = static_cast<float*>(out[0]) + at;
        const auto input = [&](size_t k) { return static_cast<const float*>(in[k]) + at; };
        add_two(input(0), input(1), y, n);
        for (size_t k = 2; k < in.size(); ++k) add_two(y, input(k), y, n);
        if (add_.activation.kind == ActivationKind::kRelu) rectify(y, n);
        if (add_.activation.kind == ActivationKind::kLeakyRelu) leak(y, add_.activation.alpha, n);
      }
    });
  }

 private:
  Add add_;
  int64_t stored_;  // elements, padding included
};

const Registration kAdd("cpu", "add", std::make_unique<OwnOp<AddKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
