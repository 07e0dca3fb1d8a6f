// global_avg_pool: no keys. [C, H, W] → [C], the mean over height and width.
#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class GlobalAvgPoolLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_one_input() || !s.expect_rank(3, "[channels, height, width]")) return std::nullopt;
    return Shape{s.input()[0]};
  }

  void forward(Emitter& e) const override { e.op("global_avg_pool", {}, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op("global_avg_pool.backward", {}, {e.output_gradient()}, {e.new_gradient(0)});
  }
};

const LayerRegistration<GlobalAvgPoolLayer> kRegistration("global_avg_pool");

}  // namespace
}  // namespace dtrain::graph
