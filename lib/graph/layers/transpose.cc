// transpose: order, a permutation of 1 … rank (the batch is axis 0 and stays where it is): axis i of the output is axis
// order[i] of the input.
#include "ops/transpose.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class TransposeLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const std::vector<int64_t> order = s.keys().require_integers("order");
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = !order.empty();
    for (size_t i = 0; i < sorted.size(); ++i) permutation = permutation && sorted[i] == static_cast<int64_t>(i) + 1;
    if (!permutation) {
      const config::Value* there = s.keys().value("order");
      if (there != nullptr && there->is_array() && there->as_array().size() == order.size())
        s.key_error("'order' must name each axis once, from 1 (axis 0 is the batch)", "order");
      return std::nullopt;
    }
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& x = s.input();
    if (static_cast<size_t>(x.rank()) != order.size()) {
      s.error(fmt::format("'order' names {} axes, but its {} has {}", order.size(), s.describe_input(), x.rank()),
              "order");
      return std::nullopt;
    }
    forward_.order = backward_.order = {0};
    backward_.order.resize(order.size() + 1);
    Shape y = x;
    for (size_t i = 0; i < order.size(); ++i) {
      y[static_cast<int>(i)] = x[static_cast<int>(order[i]) - 1];
      forward_.order.push_back(static_cast<int>(order[i]));
      backward_.order[static_cast<size_t>(order[i])] = static_cast<int>(i) + 1;
    }
    return y;
  }

  void forward(Emitter& e) const override { e.op("transpose", forward_, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op("transpose", backward_, {e.output_gradient()}, {e.new_gradient(0)});
  }

 private:
  ops::Transpose forward_, backward_;
};

const LayerRegistration<TransposeLayer> kRegistration("transpose");

}  // namespace
}  // namespace dtrain::graph
