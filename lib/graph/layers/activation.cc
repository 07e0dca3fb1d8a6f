// relu, sigmoid, tanh, gelu, gelu_tanh, silu, softplus, elu (alpha = 1), leaky_relu (slope = 0.01), relu6: element by
// element, as ops/activation.h defines them. Any shape, which stays.
#include "base/check.h"
#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class ActivationLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const auto kind = ops::activation_by_name(s.type());
    DTRAIN_CHECK(kind.has_value(), "{} is no activation", s.type());
    activation_ = s.read_activation(*kind);
    if (!s.expect_one_input()) return std::nullopt;
    return s.input();
  }

  bool keeps_shape() const override { return true; }
  std::optional<ops::Activation> activation() const override { return activation_; }

  void forward(Emitter& e) const override {
    const ValueId y = e.new_output();
    e.op("activation", activation_, {e.input(0)}, {y});
    e.save(ops::backward_uses_output(activation_.kind) ? y : e.input(0));
  }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0))
      e.op("activation.backward", activation_, {e.output_gradient(), e.saved(0)}, {e.new_gradient(0)});
  }

 private:
  ops::Activation activation_;
};

using Registration = LayerRegistration<ActivationLayer>;
const Registration kRegistrations[] = {Registration("relu"),     Registration("sigmoid"),   Registration("tanh"),
                                       Registration("gelu"),     Registration("gelu_tanh"), Registration("silu"),
                                       Registration("softplus"), Registration("elu"),       Registration("leaky_relu"),
                                       Registration("relu6")};

}  // namespace
}  // namespace dtrain::graph
