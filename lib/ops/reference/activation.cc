#include "ops/activation.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluCubic = 0.044715;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2; }

}  // namespace

// Comparisons are written so that NaN stays NaN.
double activate(const Activation& a, double x) {
  switch (a.kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return x < 0 ? 0 : x;
    case ActivationKind::kSigmoid:
      return sigmoid(x);
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kGelu:
      return x * normal_distribution(x);
    case ActivationKind::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kGeluCubic * x * x * x)));
    case ActivationKind::kSilu:
      return x * sigmoid(x);
    case ActivationKind::kSoftplus:
      return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
    case ActivationKind::kElu:
      return x > 0 ? x : a.alpha * std::expm1(x);
    case ActivationKind::kLeakyRelu:
      return x > 0 ? x : a.alpha * x;
    case ActivationKind::kRelu6:
      return x < 0 ? 0 : x > 6 ? 6 : x;
  }
  check_failed(__FILE__, __LINE__, "a known activation", "");
}

double derivative(const Activation& a, double saved) {
  const double x = saved, y = saved;
  switch (a.kind) {
    case ActivationKind::kNone:
      return 1;
    case ActivationKind::kRelu:
      return y > 0 ? 1 : 0;
    case ActivationKind::kSigmoid:
      return y * (1 - y);
    case ActivationKind::kTanh:
      return 1 - y * y;
    case ActivationKind::kGelu:
      return normal_distribution(x) + x * normal_density(x);
    case ActivationKind::kGeluTanh: {
      const double t = std::tanh(kRootTwoOverPi * (x + kGeluCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kGeluCubic * x * x);
    }
    case ActivationKind::kSilu: {
      const double s = sigmoid(x);
      return s + x * s * (1 - s);
    }
    case ActivationKind::kSoftplus:
      return sigmoid(x);
    case ActivationKind::kElu:
      return y > 0 ? 1 : y + a.alpha;
    case ActivationKind::kLeakyRelu:
      return y > 0 ? 1 : a.alpha;
    case ActivationKind::kRelu6:
      return y > 0 && y < 6 ? 1 : 0;
  }
  check_failed(__FILE__, __LINE__, "a known activation", "");
}

namespace {

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<Activation>();
  const float* x = call.in(0);
  float* y = call.out(0);
  for (int64_t i = 0, n = call.in_shape(0).elements(); i < n; ++i) y[i] = static_cast<float>(activate(a, x[i]));
}

void backward(const Call& call) {
  const auto& a = call.request.attributes_as<Activation>();
  const float *dy = call.in(0), *saved = call.in(1);
  float* dx = call.out(0);
  for (int64_t i = 0, n = call.in_shape(0).elements(); i < n; ++i) {
    const double slope = derivative(a, saved[i]);
    // relu and relu6 choose, they do not multiply: 0 even where dy is not finite.
    const bool chooses = a.kind == ActivationKind::kRelu || a.kind == ActivationKind::kRelu6;
    dx[i] = chooses && slope == 0 ? 0.0f : static_cast<float>(dy[i] * slope);
  }
}

const Registration kForward("reference", "activation", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "activation.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
