#include "ops/activation.h"

#include "base/check.h"

namespace dtrain::ops {
namespace {

struct Row {
  ActivationKind kind;
  std::string_view name;
  bool from_output;
};
constexpr Row kRows[] = {
    {ActivationKind::kRelu, "relu", true},
    {ActivationKind::kSigmoid, "sigmoid", true},
    {ActivationKind::kTanh, "tanh", true},
    {ActivationKind::kGelu, "gelu", false},
    {ActivationKind::kGeluTanh, "gelu_tanh", false},
    {ActivationKind::kSilu, "silu", false},
    {ActivationKind::kSoftplus, "softplus", false},
    {ActivationKind::kElu, "elu", true},
    {ActivationKind::kLeakyRelu, "leaky_relu", true},
    {ActivationKind::kRelu6, "relu6", true},
};

}  // namespace

std::optional<ActivationKind> activation_by_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.kind;
  return std::nullopt;
}

std::string_view name_of(ActivationKind kind) {
  for (const Row& r : kRows)
    if (r.kind == kind) return r.name;
  return "none";
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Row& r : kRows) names.emplace_back(r.name);
  return names;
}

bool backward_uses_output(ActivationKind kind) {
  for (const Row& r : kRows)
    if (r.kind == kind) return r.from_output;
  check_failed(__FILE__, __LINE__, "an activation with a derivative", "");
}

}  // namespace dtrain::ops
