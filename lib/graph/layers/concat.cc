// concat: axis = 1 (the batch is axis 0). Two or more inputs whose shapes differ along that axis only.
#include <fmt/format.h>

#include "graph/layer_registry.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

class ConcatLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t given = s.keys().integer("axis", 1);
    if (!s.expect_several_inputs()) return std::nullopt;
    const int rank = s.input().rank() + 1;  // with the batch
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 1 || axis >= rank) {
      s.error(fmt::format("'axis' must be from 1 to {} (axis 0 is the batch), got {}", rank - 1, given), "axis");
      return std::nullopt;
    }
    axis_.axis = static_cast<int>(axis);
    Shape y = s.input();
    for (int i = 1; i < s.inputs(); ++i) {
      Shape other = s.input(i);
      if (other.rank() == y.rank()) {
        y[axis_.axis - 1] += other[axis_.axis - 1];
        other[axis_.axis - 1] = y[axis_.axis - 1];
      }
      if (other == y) continue;
      s.error(fmt::format("its inputs may differ along axis {} only: {}, but {}", axis_.axis, s.describe_input(0),
                          s.describe_input(i)),
              "inputs");
      return std::nullopt;
    }
    return y;
  }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in;
    for (int i = 0; i < e.inputs(); ++i) in.push_back(e.input(i));
    e.op("concat", axis_, std::move(in), {e.new_output()});
  }

  void backward(Emitter& e) const override {
    int64_t begin = 0;
    for (int i = 0; i < e.inputs(); ++i) {
      if (e.wants_gradient(i)) e.op("slice", ops::Slice{axis_.axis, begin}, {e.output_gradient()}, {e.new_gradient(i)});
      begin += e.shape(e.input(i))[axis_.axis];
    }
  }

 private:
  ops::Axis axis_;
};

const LayerRegistration<ConcatLayer> kRegistration("concat");

}  // namespace
}  // namespace dtrain::graph
