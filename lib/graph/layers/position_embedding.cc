// position_embedding: length. [T, D] with T ≤ length, which stays; parameter weight [length, D], whose row t is added
// at position t.
#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class PositionEmbeddingLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t length = s.keys().require_integer("length", 1, LayerSetup::kMaxExtent);
    if (!s.expect_one_input() || !s.expect_rank(2, "[positions, numbers]")) return std::nullopt;
    const Shape& x = s.input();
    if (x[0] > length) {
      s.error(fmt::format("has a length of {}, but its {} has {} positions", length, s.describe_input(), x[0]),
              "length");
      return std::nullopt;
    }
    s.parameter("weight", {length, x[1]}, Initializer::normal(1.0f));
    return x;
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override {
    e.op("position_embedding", {}, {e.input(0), e.parameter(0)}, {e.new_output()});
  }

  void backward(Emitter& e) const override {
    e.op("position_embedding.backward", {}, {e.output_gradient()}, {e.parameter_out(0)});
    e.give_gradient(0, e.output_gradient());
  }
};

const LayerRegistration<PositionEmbeddingLayer> kRegistration("position_embedding");

}  // namespace
}  // namespace dtrain::graph
