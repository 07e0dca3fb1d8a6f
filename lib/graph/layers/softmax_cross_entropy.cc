// softmax_cross_entropy: axis = -1 (the classes; the batch is axis 0), label_smoothing = 0, top_k (to count labels
// among so many largest logits; none by default). A loss: logits of any shape, whose labels are class indices in that
// shape without the axis.
#include <fmt/format.h>

#include "graph/layer_registry.h"
#include "graph/layers/loss_layer.h"
#include "ops/loss.h"

namespace dtrain::graph {
namespace {

class SoftmaxCrossEntropyLayer final : public LossLayer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t given = s.keys().integer("axis", -1);
    loss_.label_smoothing = static_cast<float>(s.keys().number("label_smoothing", 0.0, 0.0, 1.0));
    loss_.top_k = s.keys().integer("top_k", 0, 1, LayerSetup::kMaxExtent);
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& z = s.input();
    const int rank = z.rank() + 1;  // with the batch
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 1 || axis >= rank) {
      s.error(fmt::format("'axis' must be from 1 to {} (axis 0 is the batch), or negative from the end, got {}; its {}",
                          rank - 1, given, s.describe_input()),
              "axis");
      return std::nullopt;
    }
    loss_.axis = static_cast<int>(axis);
    const int64_t classes = z[loss_.axis - 1];
    if (loss_.top_k > classes) {
      s.error(
          fmt::format("'top_k' = {} is more than the {} classes of its {}", loss_.top_k, classes, s.describe_input()),
          "top_k");
      return std::nullopt;
    }
    std::vector<int64_t> labels = z.dims();
    labels.erase(labels.begin() + (axis - 1));
    s.labels({LabelSpec::Kind::kClasses, Shape(std::move(labels)), classes, loss_.top_k});
    return Shape{};
  }

  Prediction prediction() const override { return {Prediction::Kind::kSoftmax, loss_.axis - 1}; }

 protected:
  std::string op() const override { return "softmax_cross_entropy"; }
  std::any attributes() const override { return loss_; }

 private:
  ops::SoftmaxCrossEntropy loss_;
};

const LayerRegistration<SoftmaxCrossEntropyLayer> kRegistration("softmax_cross_entropy");

}  // namespace
}  // namespace dtrain::graph
