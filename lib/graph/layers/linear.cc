// linear: units, bias = true. […, I] → […, units]; parameters weight [units, I] and bias [units].
#include "ops/linear.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class LinearLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t units = s.keys().require_integer("units", 1, LayerSetup::kMaxExtent);
    bias_ = s.keys().boolean("bias", true);
    if (!s.expect_one_input()) return std::nullopt;
    if (s.input().rank() == 0) {
      s.error(fmt::format("needs at least one axis, but its {} has none", s.describe_input()));
      return std::nullopt;
    }
    Shape y = s.input();
    const int64_t in = y.at(-1);
    y[y.rank() - 1] = units;
    s.parameter("weight", {units, in}, Initializer::fan_in(static_cast<double>(in)));
    if (bias_) s.parameter("bias", {units}, Initializer::fan_in(static_cast<double>(in)));
    s.flops(2.0 * static_cast<double>(in) * static_cast<double>(y.elements()));
    return y;
  }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0), e.parameter(0)};
    if (bias_) in.push_back(e.parameter(1));
    e.fused_op("linear", ops::Linear{}, std::move(in), {e.new_output()});
  }

  // The input's gradient first: after it nothing reads the weights, and each piece of their gradient can be used, and
  // the weights overwritten, while it is in the cache.
  void backward(Emitter& e) const override {
    const ValueId x = e.input(0), dy = e.output_gradient();
    if (e.wants_gradient(0)) e.op("linear.backward_data", ops::Linear{}, {dy, e.parameter(0)}, {e.new_gradient(0)});
    const std::vector<Emitter::Piece> pieces = e.parameter_pieces(0);
    if (pieces.size() == 1) {
      std::vector<ValueId> out{pieces[0].out};
      if (bias_) out.push_back(e.parameter_out(1));
      e.op("linear.backward_weights", ops::Linear{}, {x, dy}, std::move(out));
      return;
    }
    for (const Emitter::Piece& piece : pieces)
      e.op("linear.backward_rows", ops::LinearRows{piece.row}, {x, dy}, {piece.out});
    if (bias_) e.op("linear.backward_bias", {}, {dy}, {e.parameter_out(1)});
  }

 private:
  bool bias_ = true;
};

const LayerRegistration<LinearLayer> kRegistration("linear");

}  // namespace
}  // namespace dtrain::graph
