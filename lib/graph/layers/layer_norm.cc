// layer_norm: epsilon = 1e-5, affine = true. […, D], which stays: normalised along the last axis; parameters weight [D]
// and bias [D] (where affine). See ops/layer_norm.h.
#include "ops/layer_norm.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class LayerNormLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    norm_.epsilon = static_cast<float>(s.keys().positive_number("epsilon", 1e-5));
    affine_ = s.keys().boolean("affine", true);
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& x = s.input();
    if (x.rank() == 0) {
      s.error(fmt::format("needs at least one axis, but its {} has none", s.describe_input()));
      return std::nullopt;
    }
    if (affine_) {
      s.parameter("weight", {x.at(-1)}, Initializer::constant(1.0f));
      s.parameter("bias", {x.at(-1)}, Initializer::constant(0.0f));
    }
    return x;
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0)}, out{e.new_output()};
    if (affine_) in.insert(in.end(), {e.parameter(0), e.parameter(1)});
    if (e.training()) {
      const Shape& x = e.shape(e.input(0));
      const Shape rows{x.elements() / x.at(-1)};
      for (ValueId v : {e.value(rows), e.value(rows)}) {
        e.save(v);
        out.push_back(v);
      }
    }
    e.op("layer_norm", norm_, std::move(in), std::move(out));
  }

  void backward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0), e.output_gradient(), e.saved(0), e.saved(1)};
    // The input's gradient is an output of the op whether anybody wants it or not.
    std::vector<ValueId> out{e.new_gradient(0)};
    if (affine_) {
      in.push_back(e.parameter(0));
      out.insert(out.end(), {e.parameter_out(0), e.parameter_out(1)});
    }
    e.op("layer_norm.backward", norm_, std::move(in), std::move(out));
  }

 private:
  ops::LayerNorm norm_;
  bool affine_ = true;
};

const LayerRegistration<LayerNormLayer> kRegistration("layer_norm");

}  // namespace
}  // namespace dtrain::graph
