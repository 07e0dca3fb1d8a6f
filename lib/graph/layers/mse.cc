// mse: no keys. A loss: the mean squared difference to targets of the input's shape.
#include "graph/layer_registry.h"
#include "graph/layers/loss_layer.h"
#include "ops/loss.h"

namespace dtrain::graph {
namespace {

class MseLayer final : public LossLayer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_one_input()) return std::nullopt;
    s.labels({LabelSpec::Kind::kTargets, s.input(), 0});
    return Shape{};
  }

 protected:
  std::string op() const override { return "mse"; }
  std::any attributes() const override { return ops::Mse{}; }
};

const LayerRegistration<MseLayer> kRegistration("mse");

}  // namespace
}  // namespace dtrain::graph
