// dot: no keys. Scalar products of rows: of two inputs [R, D] and [S, D] (or [D] for a single row) to [R, S], each row
// of the first with each of the second; of one input [R, D] to [R (R − 1) / 2], each row with those before it, as
// features interact in DLRM (Naumov et al. 2019).
#include "ops/dot.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class DotLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (s.inputs() > 2) {
      s.error(fmt::format("takes one input or two, got {}", s.inputs()));
      return std::nullopt;
    }
    for (int i = 0; i < s.inputs(); ++i) {
      const int rank = s.input(i).rank();
      if (rank == 2 || (rank == 1 && s.inputs() == 2)) continue;
      s.error(
          fmt::format("needs rows [R, D], but its {} has {} ax{}s", s.describe_input(i), rank, rank == 1 ? "i" : "e"));
      return std::nullopt;
    }
    const int64_t rows = rows_of(s.input(0)), dim = width_of(s.input(0));
    if (s.inputs() == 1) {
      if (rows < 2) {
        s.error(fmt::format("needs two rows or more, but its {} has one", s.describe_input(0)));
        return std::nullopt;
      }
      s.flops(static_cast<double>(rows) * static_cast<double>(rows - 1) * static_cast<double>(dim));
      return Shape{rows * (rows - 1) / 2};
    }
    const int64_t others = rows_of(s.input(1));
    if (width_of(s.input(1)) != dim) {
      s.error(fmt::format("its rows must be of one length: {}, but {}", s.describe_input(0), s.describe_input(1)),
              "inputs");
      return std::nullopt;
    }
    s.flops(2.0 * static_cast<double>(rows) * static_cast<double>(others) * static_cast<double>(dim));
    return Shape{rows, others};
  }

  void forward(Emitter& e) const override {
    if (e.inputs() == 1)
      e.op("pairwise_dot", {}, {e.input(0)}, {e.new_output()});
    else
      e.op("dot", {}, {matrix(e, 0), matrix(e, 1)}, {e.new_output()});
  }

  void backward(Emitter& e) const override {
    if (e.inputs() == 1) {
      if (e.wants_gradient(0))
        e.op("pairwise_dot.backward", {}, {e.output_gradient(), e.input(0)}, {e.new_gradient(0)});
      return;
    }
    for (int i = 0; i < 2; ++i) {
      if (!e.wants_gradient(i)) continue;
      const ValueId made = e.value(matrix_shape(e.shape(e.input(i))));
      e.op("dot.backward", ops::Dot{i == 1}, {e.output_gradient(), matrix(e, 1 - i)}, {made});
      e.give_gradient(i, e.view(made, e.shape(e.input(i))));
    }
  }

 private:
  static int64_t rows_of(const Shape& shape) { return shape.rank() == 1 ? 1 : shape[0]; }
  static int64_t width_of(const Shape& shape) { return shape[shape.rank() - 1]; }
  // With the batch.
  static Shape matrix_shape(const Shape& shape) { return shape.rank() == 2 ? Shape{shape[0], 1, shape[1]} : shape; }
  static ValueId matrix(Emitter& e, int i) { return e.view(e.input(i), matrix_shape(e.shape(e.input(i)))); }
};

const LayerRegistration<DotLayer> kRegistration("dot");

}  // namespace
}  // namespace dtrain::graph
