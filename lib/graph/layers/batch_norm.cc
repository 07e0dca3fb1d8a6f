// batch_norm: epsilon = 1e-5, momentum = 0.1 (the new value's weight), affine = true. [C] or [C, H, W], which stays;
// parameters weight [C] and bias [C] (where affine), statistics running_mean [C] and running_var [C]. See
// ops/batch_norm.h.
#include "ops/batch_norm.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class BatchNormLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    norm_.epsilon = static_cast<float>(s.keys().positive_number("epsilon", 1e-5));
    norm_.momentum = static_cast<float>(s.keys().number("momentum", 0.1, 0.0, 1.0));
    affine_ = s.keys().boolean("affine", true);
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& x = s.input();
    if (x.rank() != 1 && x.rank() != 3) {
      s.error(fmt::format("needs [channels] or [channels, height, width], but its {} has {} axes", s.describe_input(),
                          x.rank()));
      return std::nullopt;
    }
    positions_ = x.rank() == 1 ? 1 : x[1] * x[2];
    if (affine_) {
      s.parameter("weight", {x[0]}, Initializer::constant(1.0f));
      s.parameter("bias", {x[0]}, Initializer::constant(0.0f));
    }
    s.parameter("running_mean", {x[0]}, Initializer::constant(0.0f), ParameterKind::kStatistic);
    s.parameter("running_var", {x[0]}, Initializer::constant(1.0f), ParameterKind::kStatistic);
    return x;
  }

  bool keeps_shape() const override { return true; }
  bool differentiates_fused_activation() const override { return true; }

  std::optional<std::string> untrainable_with(int64_t micro_batch) const override {
    if (micro_batch * positions_ > 1) return std::nullopt;
    return "a micro-batch of one sample has one value in each channel, and so no variance: use a larger micro_batch";
  }

  void forward(Emitter& e) const override {
    const int mean = affine_ ? 2 : 0;  // the statistics come after weight and bias
    std::vector<ValueId> in{e.input(0), e.parameter(mean), e.parameter(mean + 1)};
    if (affine_) in.insert(in.end(), {e.parameter(0), e.parameter(1)});
    if (!e.training()) {
      e.fused_op("batch_norm.inference", norm_, std::move(in), {e.new_output()});
      return;
    }
    const Shape channels{e.shape(e.input(0))[1]};
    for (ValueId v : {e.value(channels), e.value(channels), e.workspace()}) e.save(v);
    e.fused_op("batch_norm", norm_, std::move(in),
               {e.new_output(), e.saved(0), e.saved(1), e.parameter_out(mean), e.parameter_out(mean + 1), e.saved(2)});
  }

  void backward(Emitter& e) const override {
    ops::BatchNorm norm = norm_;
    norm.activation = e.fused_activation();
    std::vector<ValueId> in{e.input(0), e.output_gradient(), e.saved(0), e.saved(1), e.saved(2)};
    // The input's gradient is an output of the op whether anybody wants it or not.
    std::vector<ValueId> out{e.new_gradient(0)};
    if (affine_) {
      in.insert(in.end(), {e.parameter(0), e.parameter(1)});
      out.insert(out.end(), {e.parameter_out(0), e.parameter_out(1)});
    }
    e.op("batch_norm.backward", norm, std::move(in), std::move(out));
  }

 private:
  ops::BatchNorm norm_;
  bool affine_ = true;
  int64_t positions_ = 1;  // of one channel in one sample
};

const LayerRegistration<BatchNormLayer> kRegistration("batch_norm");

}  // namespace
}  // namespace dtrain::graph
