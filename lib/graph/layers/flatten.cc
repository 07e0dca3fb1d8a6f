// flatten: no keys. […] → [elements], the same elements in row-major order; nothing is computed or copied.
#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class FlattenLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_one_input()) return std::nullopt;
    return Shape{s.input().elements()};
  }

  bool picks() const override { return true; }

  void forward(Emitter& e) const override {
    const Shape& x = e.shape(e.input(0));
    e.set_output(e.view(e.input(0), {e.batch(), x.elements() / e.batch()}));
  }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.give_gradient(0, e.view(e.output_gradient(), e.shape(e.input(0))));
  }
};

const LayerRegistration<FlattenLayer> kRegistration("flatten");

}  // namespace
}  // namespace dtrain::graph
