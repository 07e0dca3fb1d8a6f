// conv_transpose2d: filters, kernel, stride = 1, pad = 0, output_pad = 0 (below the stride), dilation = 1, groups = 1,
// bias = true. [C, H, W] → [filters, oh, ow] with oh = (H − 1)·stride − 2·pad + dilation·(kernel − 1) + output_pad + 1:
// the gradient of a convolution that makes H of oh (PyTorch's ConvTranspose2d). Parameters weight [C, filters/groups,
// kh, kw] and bias [filters].
#include <fmt/format.h>

#include "graph/layer_registry.h"
#include "ops/channel_bias.h"
#include "ops/conv2d.h"

namespace dtrain::graph {
namespace {

class ConvTranspose2dLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    constexpr int64_t kMax = LayerSetup::kMaxExtent;
    config::TableReader& keys = s.keys();
    const int64_t filters = keys.require_integer("filters", 1, kMax);
    conv_.kernel = keys.require_pair("kernel", 1, kMax);
    conv_.stride = keys.pair("stride", {1, 1}, 1, kMax);
    conv_.pad = keys.pair("pad", {0, 0}, 0, kMax);
    conv_.dilation = keys.pair("dilation", {1, 1}, 1, kMax);
    conv_.groups = keys.integer("groups", 1, 1, kMax);
    bias_ = keys.boolean("bias", true);
    const config::Pair output_pad = keys.pair("output_pad", {0, 0}, 0, kMax);
    for (size_t a : {0, 1})
      if (output_pad[a] >= conv_.stride[a]) {
        s.key_error(fmt::format("'output_pad' must be below the stride ({} by {}), got {} by {}", conv_.stride[0],
                                conv_.stride[1], output_pad[0], output_pad[1]),
                    "output_pad");
        return std::nullopt;
      }
    if (!s.expect_one_input() || !s.expect_rank(3, "[channels, height, width]")) return std::nullopt;

    const Shape& x = s.input();
    if (x[0] % conv_.groups != 0 || filters % conv_.groups != 0) {
      s.error(fmt::format("'groups' = {} must divide both the {} filters and the {} channels of its {}", conv_.groups,
                          filters, x[0], s.describe_input()),
              "groups");
      return std::nullopt;
    }
    Shape y{filters, 0, 0};
    for (int a : {0, 1}) {
      const auto i = static_cast<size_t>(a);
      if (static_cast<double>(x[a + 1]) * static_cast<double>(conv_.stride[i]) > LayerSetup::kMaxElements) {
        s.error(fmt::format("'stride' of {} by {} makes more than 2^40 rows or columns of its {}", conv_.stride[0],
                            conv_.stride[1], s.describe_input()),
                "stride");
        return std::nullopt;
      }
      y[a + 1] = (x[a + 1] - 1) * conv_.stride[i] - 2 * conv_.pad[i] + conv_.dilation[i] * (conv_.kernel[i] - 1) +
                 output_pad[i] + 1;
      if (y[a + 1] >= 1) continue;
      s.error(fmt::format("'pad' of {} by {} leaves nothing of its {}", conv_.pad[0], conv_.pad[1], s.describe_input()),
              "pad");
      return std::nullopt;
    }

    const Shape weight{x[0], filters / conv_.groups, conv_.kernel[0], conv_.kernel[1]};
    // PyTorch takes the weight's second axis for the inputs' here too.
    const double fan_in =
        static_cast<double>(weight[1]) * static_cast<double>(weight[2]) * static_cast<double>(weight[3]);
    s.parameter("weight", weight, Initializer::fan_in(fan_in));
    if (bias_) s.parameter("bias", {filters}, Initializer::fan_in(fan_in));
    s.flops(2.0 * fan_in * static_cast<double>(x.elements()));
    return y;
  }

  void forward(Emitter& e) const override {
    if (!bias_) {
      e.op("conv2d.backward_data", conv_, {e.input(0), e.parameter(0)}, {e.new_output()});
      return;
    }
    const ValueId sums = e.value(e.output_shape());
    e.op("conv2d.backward_data", conv_, {e.input(0), e.parameter(0)}, {sums});
    e.fused_op("channel_bias", ops::ChannelBias{}, {sums, e.parameter(1)}, {e.new_output()});
  }

  void backward(Emitter& e) const override {
    const ValueId dy = e.output_gradient();
    e.op("conv2d.backward_weights", conv_, {dy, e.input(0)}, {e.parameter_out(0)});
    if (bias_) e.op("channel_bias.backward", {}, {dy}, {e.parameter_out(1)});
    if (e.wants_gradient(0)) e.op("conv2d", conv_, {dy, e.parameter(0)}, {e.new_gradient(0)});
  }

 private:
  ops::Conv2d conv_;
  bool bias_ = true;
};

const LayerRegistration<ConvTranspose2dLayer> kRegistration("conv_transpose2d");

}  // namespace
}  // namespace dtrain::graph
