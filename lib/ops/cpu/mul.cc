// mul: one pass over all stored elements, whatever the layout, padding included (0 · 0 = 0).
#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

DTRAIN_CLONES
void multiply(const float* a, const float* b, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

class MulKernel final : public OwnKernel {
 public:
  explicit MulKernel(const OpRequest& request) : OwnKernel(request) {
    // The first layout that is not plain, as an addition takes it.
    LayoutPtr layout;
    for (const TensorDesc& x : request.inputs)
      if (!layout) layout = x.layout;
    input_layouts.assign(request.inputs.size(), layout);
    outputs[0].layout = layout;
    stored_ = static_cast<int64_t>(outputs[0].bytes() / sizeof(float));
    in_place = {{0, 0}, {0, 1}};  // a later input would be overwritten before it is read
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    constexpr int64_t kBlock = 2048;  // stays in the first cache over all inputs
    for_pieces(stored_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        float* y = static_cast<float*>(out[0]) + at;
        const auto input = [&](size_t k) { return static_cast<const float*>(in[k]) + at; };
        multiply(input(0), input(1), y, n);
        for (size_t k = 2; k < in.size(); ++k) multiply(y, input(k), y, n);
      }
    });
  }

 private:
  int64_t stored_;  // elements, padding included
};

const Registration kMul("cpu", "mul", std::make_unique<OwnOp<MulKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
