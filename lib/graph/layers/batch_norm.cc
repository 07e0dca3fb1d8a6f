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
    norm_.affine = s.keys().boolean("affine", true);
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& x = s.input();
    if (x.rank() != 1 && x.rank() != 3) {
      s.error(fmt::format("needs [channels] or [channels, height, width], but its {} has {} axes", s.describe_input(),
                          x.rank()));
      return std::nullopt;
    }
    positions_ = x.rank() == 1 ? 1 : x[1] * x[2];
    if (norm_.affine) {
      s.parameter("weight", {x[0]}, Initializer::constant(1.0f));
      s.parameter("bias", {x[0]}, Initializer::constant(0.0f));
    }
    s.parameter("running_mean", {x[0]}, Initializer::constant(0.0f), ParameterKind::kStatistic);
    s.parameter("running_var", {x[0]}, Initializer::constant(1.0f), ParameterKind::kStatistic);
    return x;
  }

  bool keeps_shape() const override { return true; }
  bool differentiates_fused_activation() const override { return true; }
  bool fuses_sums() const override { return true; }
  size_t most_gradients() const override { return ops::BatchNorm::kMostGradients; }

  std::optional<std::string> untrainable_with(int64_t micro_batch) const override {
    if (micro_batch * positions_ > 1) return std::nullopt;
    return "a micro-batch of one sample has one value in each channel, and so no variance: use a larger micro_batch";
  }

  void forward(Emitter& e) const override {
    ops::BatchNorm norm = norm_;
    norm.residual = e.residual() != kNoValue;
    const int mean = norm.affine ? 2 : 0;  // the statistics come after weight and bias
    std::vector<ValueId> in{e.input(0), e.parameter(mean), e.parameter(mean + 1)};
    if (norm.affine) in.insert(in.end(), {e.parameter(0), e.parameter(1)});
    if (norm.residual) in.push_back(e.residual());
    if (!e.training()) {
      e.fused_op("batch_norm.inference", norm, std::move(in), {e.new_output()});
      return;
    }
    const Shape channels{e.shape(e.input(0))[1]};
    for (ValueId v : {e.value(channels), e.value(channels)}) e.save(v);
    e.fused_op("batch_norm", norm, std::move(in),
               {e.new_output(), e.saved(0), e.saved(1), e.parameter_out(mean), e.parameter_out(mean + 1)});
  }

  void backward(Emitter& e) const override {
    ops::BatchNorm norm = norm_;
    norm.activation = e.fused_activation();
    norm.residual = e.residual() != kNoValue;
    const bool relu = norm.activation.kind != ops::ActivationKind::kNone;
    std::vector<ValueId> in{e.input(0), e.saved(0), e.saved(1)};
    if (norm.affine) in.push_back(e.parameter(0));
    if (relu) in.push_back(e.output());
    in.insert(in.end(), e.output_gradients().begin(), e.output_gradients().end());
    // The input's gradient is an output of the op whether anybody wants it or not.
    std::vector<ValueId> out{e.new_gradient(0)};
    if (norm.affine) out.insert(out.end(), {e.parameter_out(0), e.parameter_out(1)});
    if (e.wants_residual_gradient()) {
      const bool same = !relu && e.output_gradients().size() == 1;
      e.give_residual_gradient(same ? e.output_gradient() : e.value(e.shape(e.input(0))));
      if (!same) out.push_back(e.residual_gradient());
    }
    e.op("batch_norm.backward", norm, std::move(in), std::move(out));
  }

 private:
  ops::BatchNorm norm_;
  int64_t positions_ = 1;  // of one channel in one sample
};

const LayerRegistration<BatchNormLayer> kRegistration("batch_norm");

}  // namespace
}  // namespace dtrain::graph
