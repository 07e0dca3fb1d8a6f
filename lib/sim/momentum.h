// The simulated runs' optimizers, in plain loops: SGD with heavy-ball momentum, and two that need norms.
#pragma once

#include "optim/optimizer.h"
#include "sim/truth.h"

namespace dtrain::sim {

class Momentum final : public optim::Optimizer {
 public:
  explicit Momentum(optim::NormNeed need) : need_(need) {}

  std::vector<std::string> slot_names() const override { return {"momentum_buffer"}; }
  optim::NormNeed norm_need() const override { return need_; }
  double ratio(const ParameterInfo&, double values, double other) const override { return ratio_of(values, other); }

  void prepare(const optim::UpdateContext& c, size_t n, float* gradient, const float* from,
               float* const* slots) const override {
    for (size_t i = 0; i < n; ++i) {
      slots[0][i] = kMomentum * slots[0][i] + c.scale * gradient[i];
      gradient[i] = slots[0][i] + kDecay * from[i];
    }
  }
  void update(const optim::UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    const auto rate = static_cast<float>(c.rate * c.ratio);
    for (size_t i = 0; i < n; ++i) {
      if (need_ == optim::NormNeed::kDirection) {
        to[i] = from[i] - rate * gradient[i];
      } else {
        slots[0][i] = kMomentum * slots[0][i] + c.scale * gradient[i];
        to[i] = from[i] - rate * slots[0][i];
      }
    }
  }

 private:
  const optim::NormNeed need_;
};

}  // namespace dtrain::sim
