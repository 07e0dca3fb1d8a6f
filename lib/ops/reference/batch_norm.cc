#include "ops/batch_norm.h"

#include <cmath>

#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// x[N,C,…] seen as rows × channels × inner.
struct Extents {
  int64_t rows, channels, inner;
  int64_t count() const { return rows * inner; }  // values of one channel
};

Extents extents_of(const Shape& x) { return {x[0], x[1], x.elements() / (x[0] * x[1])}; }

// Calls f(index) for every element of channel c.
template <typename F>
void for_channel(const Extents& e, int64_t c, F f) {
  for (int64_t n = 0; n < e.rows; ++n)
    for (int64_t i = 0; i < e.inner; ++i) f((n * e.channels + c) * e.inner + i);
}

std::optional<std::string> check_activation(const OpRequest& request) {
  const ActivationKind kind = request.attributes_as<BatchNorm>().activation.kind;
  if (kind != ActivationKind::kNone && kind != ActivationKind::kRelu) return "a fused activation other than relu";
  return std::nullopt;
}

std::optional<std::string> check_training(const OpRequest& request) {
  if (extents_of(request.inputs[0].shape).count() < 2) return "one value per channel: its variance is not defined";
  return check_activation(request);
}

void normalise(const Call& call, const Extents& e, int64_t c, double mean, double variance) {
  const auto& a = call.request.attributes_as<BatchNorm>();
  const double gamma = a.affine ? call.in(3)[c] : 1.0, beta = a.affine ? call.in(4)[c] : 0.0;
  const float* r = a.residual ? call.in(call.in_count() - 1) : nullptr;
  const double scale = 1.0 / std::sqrt(variance + a.epsilon);
  for_channel(e, c, [&](int64_t i) {
    const double y = (call.in(0)[i] - mean) * scale * gamma + beta + (r ? r[i] : 0.0f);
    call.out(0)[i] = static_cast<float>(activate(a.activation, y));
  });
}

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<BatchNorm>();
  const Extents e = extents_of(call.in_shape(0));
  const auto n = static_cast<double>(e.count());
  for (int64_t c = 0; c < e.channels; ++c) {
    double mean = 0, variance = 0;
    for_channel(e, c, [&](int64_t i) { mean += call.in(0)[i]; });
    mean /= n;
    for_channel(e, c, [&](int64_t i) { variance += (call.in(0)[i] - mean) * (call.in(0)[i] - mean); });
    variance /= n;
    normalise(call, e, c, mean, variance);
    call.out(1)[c] = static_cast<float>(mean);
    call.out(2)[c] = static_cast<float>(variance);
    const double m = a.momentum;
    call.out(3)[c] = static_cast<float>((1 - m) * call.in(1)[c] + m * mean);
    call.out(4)[c] = static_cast<float>((1 - m) * call.in(2)[c] + m * variance * n / (n - 1));
  }
}

void inference(const Call& call) {
  const Extents e = extents_of(call.in_shape(0));
  for (int64_t c = 0; c < e.channels; ++c) normalise(call, e, c, call.in(1)[c], call.in(2)[c]);
}

// With x̂ = (x − mean)·r, r = 1/√(var + ε): dx = gamma·r·(dy − mean(dy) − x̂·mean(dy·x̂)) (Ioffe & Szegedy, section 3).
void backward(const Call& call) {
  const auto& a = call.request.attributes_as<BatchNorm>();
  const Extents e = extents_of(call.in_shape(0));
  const auto n = static_cast<double>(e.count());
  const bool relu = a.activation.kind == ActivationKind::kRelu;
  const size_t y = a.affine ? 4 : 3, first_dy = y + (relu ? 1 : 0);
  const bool gives_residual = call.out_count() == (a.affine ? 4u : 2u);
  for (int64_t c = 0; c < e.channels; ++c) {
    const double gamma = a.affine ? call.in(3)[c] : 1.0;
    const double mean = call.in(1)[c], r = 1.0 / std::sqrt(call.in(2)[c] + static_cast<double>(a.epsilon));
    auto normalised = [&](int64_t i) { return (call.in(0)[i] - mean) * r; };
    auto gradient = [&](int64_t i) -> double {
      if (relu && !(call.in(y)[i] > 0)) return 0.0;
      double dy = 0;
      for (size_t k = first_dy; k < call.in_count(); ++k) dy += call.in(k)[i];
      return dy;
    };
    double sum = 0, dot = 0;
    for_channel(e, c, [&](int64_t i) {
      sum += gradient(i);
      dot += gradient(i) * normalised(i);
    });
    for_channel(e, c, [&](int64_t i) {
      if (gives_residual) call.out(call.out_count() - 1)[i] = static_cast<float>(gradient(i));
      call.out(0)[i] = static_cast<float>(gamma * r * (gradient(i) - sum / n - normalised(i) * dot / n));
    });
    if (!a.affine) continue;
    call.out(1)[c] = static_cast<float>(dot);
    call.out(2)[c] = static_cast<float>(sum);
  }
}

const Registration kForward("reference", "batch_norm", std::make_unique<PlainOp>(forward, check_training));
const Registration kBackward("reference", "batch_norm.backward", std::make_unique<PlainOp>(backward, check_training));
const Registration kInference("reference", "batch_norm.inference",
                              std::make_unique<PlainOp>(inference, check_activation));

}  // namespace
}  // namespace dtrain::ops::reference
