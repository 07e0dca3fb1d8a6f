#include <cmath>

#include "ops/reference/recurrence.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// The workspace of a sample and step, H doubles each: i, f, g, o, c, h.
constexpr int64_t kWidth = 6;

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
    std::vector<double> h(units), c(units);
    for (int64_t s = 0; s < r.steps; ++s) {
      const float* x = call.in(0) + r.row(n, s) * r.inputs;
      const auto a = affine(call.in(1), call.in(3), r.gates, std::vector<double>(x, x + r.inputs));
      const auto b = affine(call.in(2), call.in(4), r.gates, h);
      const int64_t at = r.state_at(call.out_shape(0), n, s);
      for (size_t u = 0; u < units; ++u) {
        const auto sum = [&](size_t gate) { return a[gate * units + u] + b[gate * units + u]; };
        const double i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = std::tanh(sum(2)), o = sigmoid(sum(3));
        c[u] = f * c[u] + i * g;
        h[u] = o * std::tanh(c[u]);
        if (at >= 0) call.out(0)[at + static_cast<int64_t>(u)] = static_cast<float>(h[u]);
        if (!saved) continue;
        double* w = saved + r.place(n, s, kWidth * r.units) + u;
        for (double value : {i, f, g, o, c[u], h[u]}) {
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
  const std::vector<double> zero(2 * units);
  RecurrentGradients gradients(call, r);
  for (int64_t n = 0; n < r.samples; ++n) {
    std::vector<double> dh(units), dc(units), d(4 * units);
    for (int64_t s = r.steps - 1; s >= 0; --s) {
      const double* w = saved + r.place(n, s, kWidth * r.units);
      const double* before = s > 0 ? w - kWidth * r.units + 4 * r.units : zero.data();  // c, then h
      const int64_t at = r.state_at(call.in_shape(3), n, s);
      for (size_t u = 0; u < units; ++u) {
        if (at >= 0) dh[u] += call.in(3)[at + static_cast<int64_t>(u)];
        const double i = w[u], f = w[units + u], g = w[2 * units + u], o = w[3 * units + u];
        const double tanh_c = std::tanh(w[4 * units + u]);
        dc[u] += dh[u] * o * (1 - tanh_c * tanh_c);
        d[u] = dc[u] * g * i * (1 - i);
        d[units + u] = dc[u] * before[u] * f * (1 - f);
        d[2 * units + u] = dc[u] * i * (1 - g * g);
        d[3 * units + u] = dh[u] * tanh_c * o * (1 - o);
        dc[u] *= f;
        dh[u] = 0;
      }
      gradients.add(n, s, d, d, {before + units, units});
      gradients.to_state(d, dh);
    }
  }
  gradients.write();
}

const Registration kForward("reference", "lstm",
                            std::make_unique<PlainOp>(forward, nullptr, PlainOp::Workspace{1, workspace}));
const Registration kBackward("reference", "lstm.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
