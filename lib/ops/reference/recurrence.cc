#include "ops/reference/recurrence.h"

namespace dtrain::ops::reference {

std::vector<double> affine(const float* w, const float* bias, int64_t rows, std::span<const double> v) {
  std::vector<double> out(bias, bias + rows);
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < v.size(); ++k) out[i] += w[i * v.size() + k] * v[k];
  return out;
}

RecurrentGradients::RecurrentGradients(const Call& call, const Recurrence& r)
    : call_(call),
      r_(r),
      w_ih_(static_cast<size_t>(r.gates * r.inputs)),
      w_hh_(static_cast<size_t>(r.gates * r.units)),
      b_ih_(static_cast<size_t>(r.gates)),
      b_hh_(static_cast<size_t>(r.gates)) {}

void RecurrentGradients::add(int64_t n, int64_t s, std::span<const double> d, std::span<const double> e,
                             std::span<const double> state) {
  const auto inputs = static_cast<size_t>(r_.inputs), units = static_cast<size_t>(r_.units);
  const float *x = call_.in(0) + r_.row(n, s) * r_.inputs, *w = call_.in(1);
  for (size_t g = 0; g < b_ih_.size(); ++g) {
    for (size_t i = 0; i < inputs; ++i) w_ih_[g * inputs + i] += d[g] * x[i];
    for (size_t i = 0; i < units; ++i) w_hh_[g * units + i] += e[g] * state[i];
    b_ih_[g] += d[g];
    b_hh_[g] += e[g];
  }
  if (call_.out_count() < 5) return;
  float* dx = call_.out(4) + r_.row(n, s) * r_.inputs;
  for (size_t i = 0; i < inputs; ++i) {
    double sum = 0;
    for (size_t g = 0; g < b_ih_.size(); ++g) sum += d[g] * w[g * inputs + i];
    dx[i] = static_cast<float>(sum);
  }
}

void RecurrentGradients::to_state(std::span<const double> e, std::vector<double>& dh) const {
  const float* w = call_.in(2);
  for (size_t g = 0; g < e.size(); ++g)
    for (size_t i = 0; i < dh.size(); ++i) dh[i] += e[g] * w[g * dh.size() + i];
}

void RecurrentGradients::write() const {
  size_t output = 0;
  for (const auto* sums : {&w_ih_, &w_hh_, &b_ih_, &b_hh_}) {
    float* out = call_.out(output++);
    for (size_t i = 0; i < sums->size(); ++i) out[i] = static_cast<float>((*sums)[i]);
  }
}

}  // namespace dtrain::ops::reference
