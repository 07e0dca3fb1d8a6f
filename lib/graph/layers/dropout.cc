// dropout: rate = 0.5. In training each element is kept with probability 1 − rate and then divided by it
// (ops/elementwise.h); in evaluation nothing happens. Any shape, which stays.
#include <fmt/format.h>

#include "base/philox.h"
#include "graph/layer_registry.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

class DropoutLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const double rate = s.keys().number("rate", 0.5);
    dropout_.rate = static_cast<float>(rate);
    dropout_.stream = stream_id("dropout/" + s.name());
    if (!(rate >= 0.0 && dropout_.rate < 1.0f)) {
      s.key_error(fmt::format("'rate' must be at least 0 and below 1, got {}", rate), "rate");
      return std::nullopt;
    }
    if (!s.expect_one_input()) return std::nullopt;
    return s.input();
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override {
    if (e.training() && dropout_.rate > 0.0f)
      e.op("dropout", dropout_, {e.input(0)}, {e.new_output()});
    else
      e.set_output(e.input(0));
  }

  void backward(Emitter& e) const override {
    if (!e.wants_gradient(0)) return;
    if (dropout_.rate > 0.0f)
      e.op("dropout.backward", dropout_, {e.output_gradient()}, {e.new_gradient(0)});
    else
      e.give_gradient(0, e.output_gradient());
  }

 private:
  ops::Dropout dropout_;
};

const LayerRegistration<DropoutLayer> kRegistration("dropout");

}  // namespace
}  // namespace dtrain::graph
