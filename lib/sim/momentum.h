// The simulated runs' optimizer: SGD with heavy-ball momentum, in plain loops.
#pragma once

#include "optim/optimizer.h"
#include "sim/truth.h"

namespace dtrain::sim {

class Momentum final : public optim::Optimizer {
 public:
  std::vector<std::string> slot_names() const override { return {"momentum_buffer"}; }
  void update(const optim::UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    const auto rate = static_cast<float>(c.rate);
    for (size_t i = 0; i < n; ++i) {
      slots[0][i] = kMomentum * slots[0][i] + c.scale * gradient[i];
      to[i] = from[i] - rate * slots[0][i];
    }
  }
};

}  // namespace dtrain::sim
