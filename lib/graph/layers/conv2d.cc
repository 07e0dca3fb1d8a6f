// conv2d: filters, kernel, stride = 1, pad = 0 | [a, b] | "same", dilation = 1, groups = 1, bias = true.
// [C, H, W] → [filters, oh, ow]; parameters weight [filters, C/groups, kh, kw] and bias [filters]. "same" pads
// ⌊dilation·(kernel − 1)/2⌋ on each side.
#include "ops/conv2d.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class Conv2dLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    constexpr int64_t kMax = LayerSetup::kMaxExtent;
    config::TableReader& keys = s.keys();
    const int64_t filters = keys.require_integer("filters", 1, kMax);
    conv_.kernel = keys.require_pair("kernel", 1, kMax);
    conv_.stride = keys.pair("stride", {1, 1}, 1, kMax);
    conv_.dilation = keys.pair("dilation", {1, 1}, 1, kMax);
    conv_.groups = keys.integer("groups", 1, 1, kMax);
    bias_ = keys.boolean("bias", true);
    if (keys.is_word("pad", "same")) {
      for (size_t a : {0, 1}) conv_.pad[a] = conv_.dilation[a] * (conv_.kernel[a] - 1) / 2;
    } else {
      conv_.pad = keys.pair("pad", {0, 0}, 0, kMax);
    }
    if (!s.expect_one_input() || !s.expect_rank(3, "[channels, height, width]")) return std::nullopt;

    const Shape& x = s.input();
    bool good = fits_groups(s, x[0], filters);
    Shape y{filters, 0, 0};
    for (int a : {0, 1}) {
      const auto i = static_cast<size_t>(a);
      const int64_t span = x[a + 1] + 2 * conv_.pad[i] - (conv_.dilation[i] * (conv_.kernel[i] - 1) + 1);
      if (span < 0) {
        s.error(fmt::format("a kernel of {} by {}{} is larger than its {}{}", conv_.kernel[0], conv_.kernel[1],
                            conv_.dilation == config::Pair{1, 1} ? "" : " with this dilation", s.describe_input(),
                            conv_.pad == config::Pair{0, 0} ? "" : ", padding included"),
                "kernel");
        return std::nullopt;
      }
      y[a + 1] = span / conv_.stride[i] + 1;
    }
    if (!good) return std::nullopt;

    const Shape weight{filters, x[0] / conv_.groups, conv_.kernel[0], conv_.kernel[1]};
    const double fan_in =
        static_cast<double>(weight[1]) * static_cast<double>(weight[2]) * static_cast<double>(weight[3]);
    s.parameter("weight", weight, Initializer::fan_in(fan_in));
    if (bias_) s.parameter("bias", {filters}, Initializer::fan_in(fan_in));
    s.flops(2.0 * fan_in * static_cast<double>(filters) * static_cast<double>(y[1]) * static_cast<double>(y[2]));
    return y;
  }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0), e.parameter(0)};
    if (bias_) in.push_back(e.parameter(1));
    e.fused_op("conv2d", conv_, std::move(in), {e.new_output()});
  }

  void backward(Emitter& e) const override {
    std::vector<ValueId> out{e.parameter_out(0)};
    if (bias_) out.push_back(e.parameter_out(1));
    e.op("conv2d.backward_weights", conv_, {e.input(0), e.output_gradient()}, std::move(out));
    if (e.wants_gradient(0))
      e.op("conv2d.backward_data", conv_, {e.output_gradient(), e.parameter(0)}, {e.new_gradient(0)});
  }

 private:
  bool fits_groups(LayerSetup& s, int64_t channels, int64_t filters) {
    if (channels % conv_.groups == 0 && filters % conv_.groups == 0) return true;
    s.error(fmt::format("'groups' = {} must divide both the {} filters and the {} channels of its {}", conv_.groups,
                        filters, channels, s.describe_input()),
            "groups");
    return false;
  }

  ops::Conv2d conv_;
  bool bias_ = true;
};

const LayerRegistration<Conv2dLayer> kRegistration("conv2d");

}  // namespace
}  // namespace dtrain::graph
