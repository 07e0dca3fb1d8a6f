// group_norm: groups (required), epsilon = 1e-5, affine = true. [C, …], which stays: each sample normalised over all
// positions and C/groups channels; parameters weight [C] and bias [C] (where affine). See ops/group_norm.h.
#include "ops/group_norm.h"

#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class GroupNormLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    norm_.groups = s.keys().require_integer("groups", 1, LayerSetup::kMaxExtent);
    norm_.epsilon = static_cast<float>(s.keys().positive_number("epsilon", 1e-5));
    affine_ = s.keys().boolean("affine", true);
    if (!s.expect_one_input()) return std::nullopt;
    const Shape& x = s.input();
    if (x.rank() == 0) {
      s.error(fmt::format("needs [channels, ...], but its {} has no axis", s.describe_input()));
      return std::nullopt;
    }
    if (x[0] % norm_.groups != 0) {
      s.error(
          fmt::format("'groups' = {} must divide the {} channels of its {}", norm_.groups, x[0], s.describe_input()),
          "groups");
      return std::nullopt;
    }
    if (affine_) {
      s.parameter("weight", {x[0]}, Initializer::constant(1.0f));
      s.parameter("bias", {x[0]}, Initializer::constant(0.0f));
    }
    return x;
  }

  bool keeps_shape() const override { return true; }

  void forward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0)}, out{e.new_output()};
    if (affine_) in.insert(in.end(), {e.parameter(0), e.parameter(1)});
    if (e.training()) {
      const Shape groups{e.batch(), norm_.groups};
      for (ValueId v : {e.value(groups), e.value(groups)}) {
        e.save(v);
        out.push_back(v);
      }
    }
    e.op("group_norm", norm_, std::move(in), std::move(out));
  }

  void backward(Emitter& e) const override {
    std::vector<ValueId> in{e.input(0), e.output_gradient(), e.saved(0), e.saved(1)};
    // The input's gradient is an output of the op whether anybody wants it or not.
    std::vector<ValueId> out{e.new_gradient(0)};
    if (affine_) {
      in.push_back(e.parameter(0));
      out.insert(out.end(), {e.parameter_out(0), e.parameter_out(1)});
    }
    e.op("group_norm.backward", norm_, std::move(in), std::move(out));
  }

 private:
  ops::GroupNorm norm_;
  bool affine_ = true;
};

const LayerRegistration<GroupNormLayer> kRegistration("group_norm");

}  // namespace
}  // namespace dtrain::graph
