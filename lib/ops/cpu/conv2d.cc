// conv2d and its gradients: oneDNN's direct convolutions, and its Winograd ones (Lavin & Gray 2015, F(4×4, 3×3)) where
// these are faster: 3×3 kernels over enough tiles and channels. They need 4 times fewer multiplications and were 1.4 to
// 2.6 times as fast on one thread (8 × 256 × 56 × 56: 397 against 175 GFLOP/s of the direct sum); their relative error
// is about 1e-6, against 2e-7 forward and 5e-7 to 4e-6 in the weights' gradient of the direct ones.
//
// Activations lie either blocked ("aBcd16b") or channels-last ("acdb"). Blocks are filled up with zeros, which costs
// time where the channels are no multiple of the block, while channels-last does not (20→50 channels, 5×5 on 12×12,
// batch 64, one thread, all three products: 8.5 ms blocked, 5.8 ms channels-last); where they are, both are within a
// few percent. So values stay as they are, and row-major ones become what their channels suit. The choice depends on
// shapes and the instruction set alone.
#include "ops/conv2d.h"

#include "ops/cpu/fingerprint.h"
#include "ops/cpu/onednn.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr int64_t kBlock = 16;
// oneDNN's kernels for first layers read up to this many channels row-major.
constexpr int64_t kFirstLayerChannels = 3;

// Shapes and attributes as oneDNN takes them.
struct Geometry {
  Geometry(const Conv2d& a, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape)
      : x(dims_of(x_shape)),
        w(dims_of(w_shape)),
        y(dims_of(y_shape)),
        stride{a.stride[0], a.stride[1]},
        dilation{a.dilation[0] - 1, a.dilation[1] - 1},
        pad{a.pad[0], a.pad[1]} {
    if (a.groups > 1) w = {a.groups, w[0] / a.groups, w[1], w[2], w[3]};
  }
  memory::desc bias() const { return plain({y[1]}); }
  // Of each of the three products.
  double flops() const {
    double n = 2.0 * static_cast<double>(y[0] * y[2] * y[3]);
    for (int64_t d : w) n *= static_cast<double>(d);
    return n;
  }

  memory::dims x, w, y, stride, dilation, pad;
};

// How a convolution may be done.
struct Way {
  Tag x, y;
  dnnl::algorithm algorithm = kDirect;
};

// Measured: with fewer tiles or channels, or where too much of the tiles lies outside, the direct one wins.
bool suits_winograd(const Geometry& g, DType compute) {
  constexpr int64_t kTile = 4, kFewestChannels = 32, kFewestTiles = 64;
  const bool plain_3x3 = g.w.size() == 4 && g.w[2] == 3 && g.w[3] == 3 && g.stride == memory::dims{1, 1} &&
                         g.dilation == memory::dims{0, 0} && g.pad[0] <= 1 && g.pad[1] <= 1;
  if (!plain_3x3 || compute != DType::kF32 || !winograd_allowed()) return false;
  for (int64_t channels : {g.x[1], g.y[1]})
    if (channels % kBlock != 0 || channels < kFewestChannels) return false;
  const int64_t down = (g.y[2] + kTile - 1) / kTile, across = (g.y[3] + kTile - 1) / kTile;
  const int64_t covered = down * across * kTile * kTile;
  return g.y[0] * down * across >= kFewestTiles && covered * 10 <= g.y[2] * g.y[3] * 16;
}

enum class Lies { kPlain, kChannelsLast, kBlocked };
Lies how_it_lies(const TensorDesc& value) {
  if (!value.layout) return Lies::kPlain;
  const LayoutPtr last = layout_of({dims_of(value.shape), onednn_type(value.dtype), Tag::nhwc});
  return same_layout(value.layout, last) ? Lies::kChannelsLast : Lies::kBlocked;
}

// Ways to try, the best first, for the activations that the kernel reads.
std::vector<Way> ways_for(const Geometry& g, DType compute, std::initializer_list<const TensorDesc*> read) {
  constexpr Way kAny{Tag::any, Tag::any}, kChannelsLast{Tag::nhwc, Tag::nhwc};
  constexpr Way kWinograd{Tag::any, Tag::any, dnnl::algorithm::convolution_winograd};
  if (suits_winograd(g, compute)) return {kWinograd, kAny, kChannelsLast};
  for (const TensorDesc* value : read) {
    const Lies lies = how_it_lies(*value);
    if (lies == Lies::kChannelsLast) return {kChannelsLast, kAny};
    if (lies == Lies::kBlocked) return {kAny, kChannelsLast};
  }
  const bool whole_blocks = g.y[1] % kBlock == 0 && (g.x[1] % kBlock == 0 || g.x[1] <= kFirstLayerChannels);
  if (whole_blocks) return {kAny, kChannelsLast};
  return {kChannelsLast, kAny};
}

// `make` gives a primitive desc for a way or throws; the first of the fastest kind is taken.
template <typename Make>
auto fastest(const std::vector<Way>& ways, Make&& make) {
  std::optional<decltype(make(ways[0]))> best;
  std::exception_ptr refused;
  for (const Way& way : ways) {
    try {
      auto p = make(way);
      if (!best || slowness(p) < slowness(*best)) best = std::move(p);
    } catch (const dnnl::error&) {
      refused = std::current_exception();
    }
    if (best && slowness(*best) == 0) break;
  }
  if (!best) std::rethrow_exception(refused);
  return *best;
}

memory::desc with(const memory::dims& dims, Tag tag, DType type = DType::kF32) {
  return {dims, onednn_type(type), tag};
}

dnnl::convolution_forward::primitive_desc forward_desc(const Geometry& g, Way f, bool bias, const Activation& fused,
                                                       DType compute) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto x = with(g.x, f.x, compute), w = any(g.w, compute), y = with(g.y, f.y);
  using Desc = dnnl::convolution_forward::desc;
  return {bias ? Desc(kind, f.algorithm, x, w, g.bias(), y, g.stride, g.dilation, g.pad, g.pad)
               : Desc(kind, f.algorithm, x, w, y, g.stride, g.dilation, g.pad, g.pad),
          attributes(fused), engine()};
}

class Forward final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const auto& a = r.attributes_as<Conv2d>();
    const bool bias = r.inputs.size() == 3;
    const Geometry g(a, r.inputs[0].shape, r.inputs[1].shape, r.outputs[0].shape);
    const auto p = fastest(ways_for(g, r.compute, {&r.inputs[0]}),
                           [&](Way f) { return forward_desc(g, f, bias, a.activation, r.compute); });
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                            {DNNL_ARG_DST, p.dst_desc(), From::kOutput, 0}},
              .flops = g.flops()};
    if (bias) plan.arguments.push_back({DNNL_ARG_BIAS, p.bias_desc(), From::kInput, 2});
    return plan;
  }
};

class BackwardData final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const Geometry g(r.attributes_as<Conv2d>(), r.outputs[0].shape, r.inputs[1].shape, r.inputs[0].shape);
    const auto p = fastest(ways_for(g, r.compute, {&r.inputs[0]}), [&](Way f) {
      return dnnl::convolution_backward_data::primitive_desc(
          {f.algorithm, with(g.x, f.x), any(g.w, r.compute), with(g.y, f.y, r.compute), g.stride, g.dilation, g.pad,
           g.pad},
          attributes(), engine(), forward_desc(g, f, false, {}, r.compute));
    });
    return Plan{.primitive = p,
                .arguments = {{DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 0},
                              {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                              {DNNL_ARG_DIFF_SRC, p.diff_src_desc(), From::kOutput, 0}},
                .flops = g.flops()};
  }
};

class BackwardWeights final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const Geometry g(r.attributes_as<Conv2d>(), r.inputs[0].shape, r.outputs[0].shape, r.inputs[1].shape);
    const bool bias = r.outputs.size() == 2;
    using Desc = dnnl::convolution_backward_weights::desc;
    const auto p = fastest(ways_for(g, r.compute, {&r.inputs[0], &r.inputs[1]}), [&](Way f) {
      const auto x = with(g.x, f.x, r.compute), w = any(g.w), y = with(g.y, f.y, r.compute);
      return dnnl::convolution_backward_weights::primitive_desc(
          bias ? Desc(f.algorithm, x, w, g.bias(), y, g.stride, g.dilation, g.pad, g.pad)
               : Desc(f.algorithm, x, w, y, g.stride, g.dilation, g.pad, g.pad),
          attributes(), engine(), forward_desc(g, f, bias, {}, r.compute));
    });
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 1},
                            {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc(), From::kOutput, 0}},
              .flops = g.flops()};
    if (bias) plan.arguments.push_back({DNNL_ARG_DIFF_BIAS, p.diff_bias_desc(), From::kOutput, 1});
    return plan;
  }
};

const Registration forward("cpu", "conv2d", std::make_unique<Forward>());
const Registration backward_data("cpu", "conv2d.backward_data", std::make_unique<BackwardData>());
const Registration backward_weights("cpu", "conv2d.backward_weights", std::make_unique<BackwardWeights>());

}  // namespace
}  // namespace dtrain::ops::cpu
