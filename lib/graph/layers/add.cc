// add: no keys, two or more inputs of equal shape, which stays. Summed in the order in which they are named.
#include "graph/layer_registry.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

class AddLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_several_inputs() || !s.expect_equal_shapes()) return std::nullopt;
    return s.input();
  }

  bool is_sum() const override { return true; }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in;
    for (int i = 0; i < e.inputs(); ++i) in.push_back(e.input(i));
    e.fused_op("add", ops::Add{}, std::move(in), {e.new_output()});
  }

  void backward(Emitter& e) const override {
    for (int i = 0; i < e.inputs(); ++i) e.give_gradient(i, e.output_gradient());
  }
};

const LayerRegistration<AddLayer> kRegistration("add");

}  // namespace
}  // namespace dtrain::graph
