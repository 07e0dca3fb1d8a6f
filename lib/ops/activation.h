// Element-wise functions, alone or fused behind another op.
//
//   activation            in x                 out y = f(x)
//   activation.backward   in dy, saved         out dx = dy · f'(…); saved is y where backward_uses_output(kind), else x
//
// Both may run in place (x→y, dy→dx). Attributes: Activation. Definitions are PyTorch's:
//   relu max(x,0) · sigmoid 1/(1+e⁻ˣ) · tanh · gelu x·Φ(x) with erf · gelu_tanh its tanh approximation ·
//   silu x·sigmoid(x) · softplus log(1+eˣ) · elu x>0 ? x : α(eˣ−1) · leaky_relu x>0 ? x : slope·x ·
//   relu6 min(max(x,0),6)
// The forms that use y take α ≥ 0 and slope ≥ 0. relu, relu6 and sigmoid, fused ones too, may give 0 where x is NaN
// (oneDNN's do): who watches for numbers that are not finite looks at the gradients, before they are applied.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::ops {

enum class ActivationKind {
  kNone,
  kRelu,
  kSigmoid,
  kTanh,
  kGelu,
  kGeluTanh,
  kSilu,
  kSoftplus,
  kElu,
  kLeakyRelu,
  kRelu6
};

struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float alpha = 0.0f;  // elu's alpha (default 1), leaky_relu's slope (default 0.01); unused otherwise

  bool operator==(const Activation&) const = default;
};

std::optional<ActivationKind> activation_by_name(std::string_view name);
std::string_view name_of(ActivationKind kind);
std::vector<std::string> activation_names();  // without "none"
// Whether the derivative is computed from the output (so that the input need not be kept). The others use the input.
bool backward_uses_output(ActivationKind kind);  // relu, sigmoid, tanh, elu, leaky_relu, relu6

}  // namespace dtrain::ops
