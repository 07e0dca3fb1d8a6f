// sigmoid_cross_entropy: no keys. A loss: a logit for each label, which is a number from 0 to 1 (PyTorch's
// binary_cross_entropy_with_logits).
#include "graph/layer_registry.h"
#include "graph/layers/loss_layer.h"
#include "ops/loss.h"

namespace dtrain::graph {
namespace {

class SigmoidCrossEntropyLayer final : public LossLayer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_one_input()) return std::nullopt;
    s.labels({LabelSpec::Kind::kTargets, s.input(), 0});
    return Shape{};
  }

  Prediction prediction() const override { return {Prediction::Kind::kSigmoid}; }

 protected:
  std::string op() const override { return "sigmoid_cross_entropy"; }
  std::any attributes() const override { return ops::SigmoidCrossEntropy{}; }
};

const LayerRegistration<SigmoidCrossEntropyLayer> kRegistration("sigmoid_cross_entropy");

}  // namespace
}  // namespace dtrain::graph
