// attention: heads, causal = false. [T, D] with D divisible by heads, which stays: torch.nn.MultiheadAttention of a
// sequence with itself. Parameters in_proj_weight [3D, D] and in_proj_bias [3D] (queries, keys, values),
// out_proj.weight [D, D] and out_proj.bias [D].
#include "ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/layer_registry.h"
#include "ops/linear.h"

namespace dtrain::graph {
namespace {

class AttentionLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t heads = s.keys().require_integer("heads", 1, LayerSetup::kMaxExtent);
    attention_.causal = s.keys().boolean("causal", false);
    if (!s.expect_one_input() || !s.expect_rank(2, "[positions, numbers]")) return std::nullopt;
    const Shape& x = s.input();
    const int64_t length = x[0], dim = x[1];
    if (dim % heads != 0) {
      s.error(
          fmt::format("{} heads do not divide the {} numbers of a position of its {}", heads, dim, s.describe_input()),
          "heads");
      return std::nullopt;
    }
    attention_.heads = static_cast<int>(heads);
    // Glorot & Bengio's uniform distribution for the three matrices as one, as PyTorch has it; biases begin at 0.
    const float bound = static_cast<float>(std::sqrt(6.0 / (4.0 * static_cast<double>(dim))));
    s.parameter("in_proj_weight", {3 * dim, dim}, Initializer::uniform(bound));
    s.parameter("in_proj_bias", {3 * dim}, Initializer::constant(0.0f));
    s.parameter("out_proj.weight", {dim, dim}, Initializer::fan_in(static_cast<double>(dim)));
    s.parameter("out_proj.bias", {dim}, Initializer::constant(0.0f));
    const auto positions = static_cast<double>(length), numbers = static_cast<double>(dim);
    const double keys = attention_.causal ? (positions + 1) / 2 : positions;  // of a query, on average
    s.flops(positions * (8.0 * numbers * numbers + 4.0 * keys * numbers));
    return x;
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override {
    const Shape x = e.shape(e.input(0));
    const ValueId qkv = e.value({x[0], x[1], 3 * x[2]}), y = e.value(x);
    e.op("linear", ops::Linear{}, {e.input(0), e.parameter(0), e.parameter(1)}, {qkv});
    std::vector<ValueId> out{y};
    if (e.training()) {
      out.push_back(e.value({x[0], attention_.heads, 2 * x[1]}));
      for (ValueId v : {qkv, y, out[1]}) e.save(v);
    }
    e.op("attention", attention_, {qkv}, std::move(out));
    e.fused_op("linear", ops::Linear{}, {y, e.parameter(2), e.parameter(3)}, {e.new_output()});
  }

  void backward(Emitter& e) const override {
    const ValueId qkv = e.saved(0), y = e.saved(1), dz = e.output_gradient();
    const ValueId dy = e.value(e.shape(y)), dqkv = e.value(e.shape(qkv));
    // As in a linear layer: after the input's gradient nothing reads the weights, and theirs can be used at once.
    e.op("linear.backward_data", ops::Linear{}, {dz, e.parameter(2)}, {dy});
    e.op("linear.backward_weights", ops::Linear{}, {y, dz}, {e.parameter_out(2), e.parameter_out(3)});
    e.op("attention.backward", attention_, {qkv, y, dy, e.saved(2)}, {dqkv});
    if (e.wants_gradient(0)) e.op("linear.backward_data", ops::Linear{}, {dqkv, e.parameter(0)}, {e.new_gradient(0)});
    e.op("linear.backward_weights", ops::Linear{}, {e.input(0), dqkv}, {e.parameter_out(0), e.parameter_out(1)});
  }

 private:
  ops::Attention attention_;
};

const LayerRegistration<AttentionLayer> kRegistration("attention");

}  // namespace
}  // namespace dtrain::graph
