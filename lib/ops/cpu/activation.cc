// activation, activation.backward: oneDNN's eltwise, on whatever layout the values have.
#include "ops/activation.h"

#include "ops/cpu/onednn.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

std::optional<std::string> refused(const Activation& a) {
  if (a.kind == ActivationKind::kNone) return "an activation without a function";
  // Neither derivative follows from the output's sign with a negative factor.
  if ((a.kind == ActivationKind::kLeakyRelu || a.kind == ActivationKind::kElu) && a.alpha < 0)
    return fmt::format("{} with the negative factor {}", name_of(a.kind), a.alpha);
  return std::nullopt;
}

class Forward final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const auto& a = r.attributes_as<Activation>();
    if (auto why = refused(a)) return tl::unexpected(*why);
    const auto x = present(r.inputs[0]);
    dnnl::eltwise_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm_of(a.kind, false), x, alpha_of(a), beta_of(a)}, attributes(),
        engine());
    return Plan{
        .primitive = forward,
        .arguments = {{DNNL_ARG_SRC, x, From::kInput, 0}, {DNNL_ARG_DST, x, From::kOutput, 0}},
        .in_place = {{0, 0}},
    };
  }
};

class Backward final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const auto& a = r.attributes_as<Activation>();
    if (auto why = refused(a)) return tl::unexpected(*why);
    // Both must lie alike: as `saved` does, which the backward of what made it will want of dx as well.
    const auto common = present(r.inputs[r.inputs[1].layout ? 1 : 0]);
    const auto algorithm = algorithm_of(a.kind, true);
    dnnl::eltwise_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, common, alpha_of(a), beta_of(a)}, attributes(), engine());
    dnnl::eltwise_backward::primitive_desc backward({algorithm, common, common, alpha_of(a), beta_of(a)}, attributes(),
                                                    engine(), forward);
    const int saved = backward_uses_output(a.kind) ? DNNL_ARG_DST : DNNL_ARG_SRC;
    return Plan{
        .primitive = backward,
        .arguments = {{DNNL_ARG_DIFF_DST, common, From::kInput, 0},
                      {saved, common, From::kInput, 1},
                      {DNNL_ARG_DIFF_SRC, common, From::kOutput, 0}},
        .in_place = {{0, 0}},
    };
  }
};

const Registration forward("cpu", "activation", std::make_unique<Forward>());
const Registration backward("cpu", "activation.backward", std::make_unique<Backward>());

}  // namespace
}  // namespace dtrain::ops::cpu
