// global_avg_pool: each channel's values added in row-major order in fp64, the same bits in every layout.
#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/pool2d.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 64;  // channels that are added up side by side

// means[l] = Σ x[i·stride + l] / size for l < n ≤ kLanes.
DTRAIN_CLONES
void side_by_side(const float* x, int64_t stride, int64_t size, int64_t n, float* means) {
  double sums[kLanes] = {};
  for (int64_t i = 0; i < size; ++i)
#pragma omp simd
    for (int64_t l = 0; l < n; ++l) sums[l] += static_cast<double>(x[i * stride + l]);
  for (int64_t l = 0; l < n; ++l) means[l] = static_cast<float>(sums[l] / static_cast<double>(size));
}

// Reads x as a convolution left it.
class GlobalAveragePoolKernel final : public OwnKernel {
 public:
  explicit GlobalAveragePoolKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape& x = request.inputs[0].shape;
    samples_ = x[0];
    channels_ = x[1];
    size_ = x[2] * x[3];
    if (const auto layout = image_layout_of(request.inputs[0])) {
      input_layouts[0] = request.inputs[0].layout;
      block_ = layout->block;
    }
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const int64_t blocks = (channels_ + block_ - 1) / block_;
    for_pieces(samples_ * blocks, kGrain / (size_ * block_), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const float* x = static_cast<const float*>(in[0]) + b * size_ * block_;
        const int64_t first = b % blocks * block_, here = std::min(block_, channels_ - first);
        float* means = static_cast<float*>(out[0]) + b / blocks * channels_ + first;
        for (int64_t l = 0; l < here; l += kLanes)
          side_by_side(x + l, block_, size_, std::min(kLanes, here - l), means + l);
      }
    });
  }

 private:
  int64_t samples_, channels_, size_, block_ = 1;  // block_: channels that lie side by side
};

class GlobalAveragePoolBackwardKernel final : public OwnKernel {
 public:
  explicit GlobalAveragePoolBackwardKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape& x = request.outputs[0].shape;
    planes_ = x[0] * x[1];
    size_ = x[2] * x[3];
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_pieces(planes_, kGrain / size_, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        float* dx = static_cast<float*>(out[0]) + p * size_;
        std::fill(dx, dx + size_, static_cast<const float*>(in[0])[p] / static_cast<float>(size_));
      }
    });
  }

 private:
  int64_t planes_, size_;
};

const Registration kForward("cpu", "global_avg_pool", std::make_unique<OwnOp<GlobalAveragePoolKernel>>());
const Registration kBackward("cpu", "global_avg_pool.backward",
                             std::make_unique<OwnOp<GlobalAveragePoolBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
