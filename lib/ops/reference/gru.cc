#include <cmath>

#include "ops/reference/recurrence.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// The workspace of a sample and step, H doubles each: r, z, n, b₃ (what r multiplies), h.
constexpr int64_t kWidth = 5;

size_t workspace(const OpRequest& request) {
  const Recurrence r(request);
  return static_cast<size_t>(r.samples * r.steps * kWidth * r.units) * sizeof(double);
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void forward(const Call& call) {
  const Recurrence r(call.request);
  const auto units = static_cast<size_t>(r.units);
  auto* saved = call.out_count() > 1 ? call.out<double>(1) : nullptr;
  for (int64_t n = 0; n < r.samples; ++n) {
    std::vector<double> h(units);
    for (int64_t s = 0; s < r.steps; ++s) {
      const float* x = call.in(0) + r.row(n, s) * r.inputs;
      const auto a = affine(call.in(1), call.in(3), r.gates, std::vector<double>(x, x + r.inputs));
      const auto b = affine(call.in(2), call.in(4), r.gates, h);
      const int64_t at = r.state_at(call.out_shape(0), n, s);
      for (size_t u = 0; u < units; ++u) {
        const double reset = sigmoid(a[u] + b[u]), z = sigmoid(a[units + u] + b[units + u]), b3 = b[2 * units + u];
        const double fresh = std::tanh(a[2 * units + u] + reset * b3);
        h[u] = (1 - z) * fresh + z * h[u];
        if (at >= 0) call.out(0)[at + static_cast<int64_t>(u)] = static_cast<float>(h[u]);
        if (!saved) continue;
        double* w = saved + r.place(n, s, kWidth * r.units) + u;
        for (double value : {reset, z, fresh, b3, h[u]}) {
          *w = value;
          w += units;
        }
      }
    }
  }
}

void backward(const Call& call) {
  const Recurrence r(call.request);
  const auto units = static_cast<size_t>(r.units);
  const auto* saved = call.in<double>(4);
  const std::vector<double> zero(units);
  RecurrentGradients gradients(call, r);
  for (int64_t n = 0; n < r.samples; ++n) {
    std::vector<double> dh(units), d(3 * units), e(3 * units);
    for (int64_t s = r.steps - 1; s >= 0; --s) {
      const double* w = saved + r.place(n, s, kWidth * r.units);
      const double* before = s > 0 ? w - r.units : zero.data();  // h, the last of the step before
      const int64_t at = r.state_at(call.in_shape(3), n, s);
      for (size_t u = 0; u < units; ++u) {
        if (at >= 0) dh[u] += call.in(3)[at + static_cast<int64_t>(u)];
        const double reset = w[u], z = w[units + u], fresh = w[2 * units + u], b3 = w[3 * units + u];
        d[2 * units + u] = dh[u] * (1 - z) * (1 - fresh * fresh);
        d[u] = d[2 * units + u] * b3 * reset * (1 - reset);
        d[units + u] = dh[u] * (before[u] - fresh) * z * (1 - z);
        e[u] = d[u];
        e[units + u] = d[units + u];
        e[2 * units + u] = d[2 * units + u] * reset;
        dh[u] *= z;
      }
      gradients.add(n, s, d, e, {before, units});
      gradients.to_state(e, dh);
    }
  }
  gradients.write();
}

const Registration kForward("reference", "gru",
                            std::make_unique<PlainOp>(forward, nullptr, PlainOp::Workspace{1, workspace}));
const Registration kBackward("reference", "gru.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
