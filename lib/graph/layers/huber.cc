// huber: delta = 1. A loss: differences to targets of the input's shape, squared up to delta, linear beyond (PyTorch's
// HuberLoss).
#include <fmt/format.h>

#include <limits>

#include "graph/layer_registry.h"
#include "graph/layers/loss_layer.h"
#include "ops/loss.h"

namespace dtrain::graph {
namespace {

class HuberLayer final : public LossLayer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const double delta = s.keys().number("delta", 1.0);
    huber_.delta = static_cast<float>(delta);
    if (!(huber_.delta > 0 && huber_.delta <= std::numeric_limits<float>::max())) {
      s.key_error(fmt::format("'delta' must be above 0 and a number of fp32, got {}", delta), "delta");
      return std::nullopt;
    }
    if (!s.expect_one_input()) return std::nullopt;
    s.labels({LabelSpec::Kind::kTargets, s.input(), 0});
    return Shape{};
  }

 protected:
  std::string op() const override { return "huber"; }
  std::any attributes() const override { return huber_; }

 private:
  ops::Huber huber_;
};

const LayerRegistration<HuberLayer> kRegistration("huber");

}  // namespace
}  // namespace dtrain::graph
