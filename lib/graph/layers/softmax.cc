// softmax, log_softmax: axis = -1 (the batch is axis 0, and no choice). Any shape, which stays. See ops/softmax.h.
#include "ops/softmax.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class SoftmaxLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    op_ = s.type();
    const int64_t given = s.keys().integer("axis", -1);
    if (!s.expect_one_input()) return std::nullopt;
    const int rank = s.input().rank() + 1;  // with the batch
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 1 || axis >= rank) {
      s.error(fmt::format("'axis' must be from 1 to {} (axis 0 is the batch), or negative from the end, got {}; its {}",
                          rank - 1, given, s.describe_input()),
              "axis");
      return std::nullopt;
    }
    softmax_.axis = static_cast<int>(axis);
    return s.input();
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override { e.op(op_, softmax_, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op(op_ + ".backward", softmax_, {e.output_gradient(), e.output()}, {e.new_gradient(0)});
  }

 private:
  std::string op_;
  ops::Softmax softmax_;
};

using Registration = LayerRegistration<SoftmaxLayer>;
const Registration kRegistrations[] = {Registration("softmax"), Registration("log_softmax")};

}  // namespace
}  // namespace dtrain::graph
