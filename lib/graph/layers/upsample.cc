// upsample: scale, mode = "nearest" | "bilinear". [C, H, W] → [C, H·scale, W·scale], with corners as
// torch.nn.functional.interpolate has them with align_corners=False.
#include "ops/upsample.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class UpsampleLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    upsample_.scale = s.keys().require_pair("scale", 1, LayerSetup::kMaxExtent);
    const std::vector<std::string> modes = {"nearest", "bilinear"};
    if (s.keys().choice("mode", modes[0], modes) == modes[1]) upsample_.mode = ops::Upsample::Mode::kBilinear;
    if (!s.expect_one_input() || !s.expect_rank(3, "[channels, height, width]")) return std::nullopt;
    Shape y = s.input();
    for (int a : {0, 1}) {
      const int64_t scale = upsample_.scale[static_cast<size_t>(a)];
      if (static_cast<double>(y[a + 1]) * static_cast<double>(scale) > LayerSetup::kMaxElements) {
        s.error(fmt::format("'scale' of {} makes more than 2^40 rows or columns of its {}", scale, s.describe_input()),
                "scale");
        return std::nullopt;
      }
      y[a + 1] *= scale;
    }
    return y;
  }

  void forward(Emitter& e) const override { e.op("upsample", upsample_, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op("upsample.backward", upsample_, {e.output_gradient()}, {e.new_gradient(0)});
  }

 private:
  ops::Upsample upsample_;
};

const LayerRegistration<UpsampleLayer> kRegistration("upsample");

}  // namespace
}  // namespace dtrain::graph
