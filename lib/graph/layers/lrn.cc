// lrn: size = 5, alpha = 1e-4, beta = 0.75, k = 1. [C, …] with at least two axes, which stays: each element is divided
// by (k + alpha · the mean of the squares in a window of `size` channels)^beta. See ops/lrn.h.
#include "ops/lrn.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class LrnLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    lrn_.size = s.keys().integer("size", 5, 1, LayerSetup::kMaxExtent);
    lrn_.alpha = static_cast<float>(s.keys().number("alpha", 1e-4, 0.0, kLargest));
    lrn_.beta = static_cast<float>(s.keys().number("beta", 0.75, 0.0, kLargest));
    lrn_.k = static_cast<float>(s.keys().number("k", 1.0, 1.0 / kLargest, kLargest));
    if (!s.expect_one_input()) return std::nullopt;
    if (s.input().rank() < 2) {
      s.error(fmt::format("needs [channels, ...] with at least two axes, but its {} has {}", s.describe_input(),
                          s.input().rank()));
      return std::nullopt;
    }
    return s.input();
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override { e.op("lrn", lrn_, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op("lrn.backward", lrn_, {e.input(0), e.output_gradient()}, {e.new_gradient(0)});
  }

 private:
  static constexpr double kLargest = 1e6;  // keeps the powers of a sum finite

  ops::Lrn lrn_;
};

const LayerRegistration<LrnLayer> kRegistration("lrn");

}  // namespace
}  // namespace dtrain::graph
