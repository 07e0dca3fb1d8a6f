// cosine: no keys. A loss: 1 − the cosine of the angle between the vectors along the input's last axis and those of
// targets of its shape, the mean over positions.
#include <fmt/format.h>

#include "graph/layer_registry.h"
#include "graph/layers/loss_layer.h"
#include "ops/loss.h"

namespace dtrain::graph {
namespace {

class CosineLayer final : public LossLayer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    if (!s.expect_one_input()) return std::nullopt;
    if (s.input().rank() == 0) {
      s.error(fmt::format("needs vectors along a last axis, but its {} has none", s.describe_input()));
      return std::nullopt;
    }
    s.labels({LabelSpec::Kind::kTargets, s.input(), 0});
    return Shape{};
  }

 protected:
  std::string op() const override { return "cosine"; }
  std::any attributes() const override { return ops::Cosine{}; }
};

const LayerRegistration<CosineLayer> kRegistration("cosine");

}  // namespace
}  // namespace dtrain::graph
