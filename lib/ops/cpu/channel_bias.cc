// channel_bias: one pass in any layout of images. The sums of the backward pass are fp64, sixteen at a time: positions
// of a plain channel, or channels that lie side by side.
#include "ops/channel_bias.h"

#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

// y = x + b, of sums below 0 `slope` of it.
DTRAIN_CLONES
void add_one(const float* x, float b, float slope, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sum = x[i] + b;
    y[i] = sum < 0.0f ? (slope == 0.0f ? 0.0f : sum * slope) : sum;
  }
}
DTRAIN_CLONES
void add_each(const float* x, const float* b, float slope, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sum = x[i] + b[i];
    y[i] = sum < 0.0f ? (slope == 0.0f ? 0.0f : sum * slope) : sum;
  }
}

// lanes[l] += x[i] for i ≡ l modulo kLanes.
DTRAIN_CLONES
void sum_positions(const float* x, double* lanes, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(x[i + l]);
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += static_cast<double>(x[i + l]);
}
// lanes[l] += x[i·stride + l] for l < width.
DTRAIN_CLONES
void sum_channels(const float* x, int64_t stride, double* lanes, int64_t width, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t l = 0; l < width; ++l) lanes[l] += static_cast<double>(x[i * stride + l]);
}

// How an image lies: samples × groups × positions × block.
struct Geometry {
  explicit Geometry(const TensorDesc& image) : layout(image_layout_of(image).value_or(ImageLayout{})) {
    const Shape& s = image.shape;
    if (layout.order != ImageLayout::Order::kPlain) block = layout.block;
    samples = s[0];
    channels = s[1];
    positions = s[2] * s[3];
    groups = (channels + block - 1) / block;
  }
  LayoutPtr of(const Shape& shape) const {
    return layout.order == ImageLayout::Order::kPlain ? nullptr : layout_of_image(shape, layout);
  }
  ImageLayout layout;
  int64_t samples, channels, groups, positions, block = 1;
};

class Forward final : public OwnKernel {
 public:
  explicit Forward(const OpRequest& request) : OwnKernel(request), g_(request.inputs[0]) {
    const Activation& a = request.attributes_as<ChannelBias>().activation;
    if (a.kind == ActivationKind::kRelu) slope_ = 0.0f;
    if (a.kind == ActivationKind::kLeakyRelu) slope_ = a.alpha;
    input_layouts[0] = outputs[0].layout = g_.of(request.inputs[0].shape);
    in_place = {{0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest& request) {
    const ActivationKind kind = request.attributes_as<ChannelBias>().activation.kind;
    if (kind != ActivationKind::kNone && kind != ActivationKind::kRelu && kind != ActivationKind::kLeakyRelu)
      return "a fused activation other than relu and leaky_relu";
    return std::nullopt;
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *x = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out[0]);
    if (g_.block == 1) {
      for_pieces(g_.samples * g_.channels, kGrain / g_.positions, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          add_one(x + r * g_.positions, b[r % g_.channels], slope_, y + r * g_.positions, g_.positions);
      });
      return;
    }
    for_pieces(g_.samples * g_.groups * g_.positions, kGrain / g_.block, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p / g_.positions % g_.groups * g_.block, n = std::min(g_.block, g_.channels - first);
        add_each(x + p * g_.block, b + first, slope_, y + p * g_.block, n);
        std::fill(y + p * g_.block + n, y + (p + 1) * g_.block, 0.0f);
      }
    });
  }

 private:
  Geometry g_;
  float slope_ = 1.0f;
};

class Backward final : public OwnKernel {
 public:
  explicit Backward(const OpRequest& request) : OwnKernel(request), g_(request.inputs[0]) {
    input_layouts[0] = g_.of(request.inputs[0].shape);
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* dy = static_cast<const float*>(in[0]);
    auto* db = static_cast<float*>(out[0]);
    const int64_t width = std::min(g_.block, kLanes), pieces = (g_.channels + width - 1) / width;
    for_pieces(pieces, kGrain / (g_.samples * g_.positions * width), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * width, n = std::min(width, g_.channels - first);
        double lanes[kLanes] = {};
        for (int64_t s = 0; s < g_.samples; ++s) {
          const float* at = dy + ((s * g_.groups + first / g_.block) * g_.positions) * g_.block + first % g_.block;
          if (g_.block == 1)
            sum_positions(at, lanes, g_.positions);
          else
            sum_channels(at, g_.block, lanes, n, g_.positions);
        }
        if (g_.block > 1) {
          for (int64_t c = 0; c < n; ++c) db[first + c] = static_cast<float>(lanes[c]);
          continue;
        }
        double sum = 0;
        for (double lane : lanes) sum += lane;
        db[p] = static_cast<float>(sum);
      }
    });
  }

 private:
  Geometry g_;
};

const Registration kForward("cpu", "channel_bias", std::make_unique<OwnOp<Forward>>());
const Registration kBackward("cpu", "channel_bias.backward", std::make_unique<OwnOp<Backward>>());

}  // namespace
}  // namespace dtrain::ops::cpu
