// mul: no keys, two or more inputs of equal shape, which stays. Multiplied element by element.
#include "graph/layer_registry.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

class MulLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_several_inputs() || !s.expect_equal_shapes()) return std::nullopt;
    return s.input();
  }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in;
    for (int i = 0; i < e.inputs(); ++i) in.push_back(e.input(i));
    e.op("mul", {}, std::move(in), {e.new_output()});
  }

  // A factor's gradient is the output's times the other factors: not the output divided by it, which may be 0.
  void backward(Emitter& e) const override {
    for (int i = 0; i < e.inputs(); ++i) {
      if (!e.wants_gradient(i)) continue;
      std::vector<ValueId> in{e.output_gradient()};
      for (int k = 0; k < e.inputs(); ++k)
        if (k != i) in.push_back(e.input(k));
      e.op("mul", {}, std::move(in), {e.new_gradient(i)});
    }
  }
};

const LayerRegistration<MulLayer> kRegistration("mul");

}  // namespace
}  // namespace dtrain::graph
