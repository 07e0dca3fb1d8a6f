#include <cmath>

#include "base/vectorize.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, rate, rho, one_minus_rho, decay, epsilon;
};

DTRAIN_CLONES void step(Scalars k, size_t n, const float* g, const float* from, float* to, float* square,
                        float* delta) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    const float s = k.rho * square[i] + k.one_minus_rho * d * d;
    const float x = std::sqrt(delta[i] + k.epsilon) / std::sqrt(s + k.epsilon) * d;
    square[i] = s;
    delta[i] = k.rho * delta[i] + k.one_minus_rho * x * x;
    to[i] = from[i] - k.rate * x;
  }
}

// torch.optim.Adadelta (Zeiler 2012).
class Adadelta final : public Optimizer {
 public:
  Adadelta(double rho, double epsilon, double decay) : rho_(rho), epsilon_(epsilon), decay_(decay) {}

  std::vector<std::string> slot_names() const override { return {"square_avg", "acc_delta"}; }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    Scalars k;
    k.scale = c.scale;
    k.rate = static_cast<float>(c.rate);
    k.rho = static_cast<float>(rho_);
    k.one_minus_rho = static_cast<float>(1 - rho_);
    k.decay = static_cast<float>(decay_ * c.decay_multiplier);
    k.epsilon = static_cast<float>(epsilon_);
    step(k, n, gradient, from, to, slots[0], slots[1]);
  }

 private:
  double rho_, epsilon_, decay_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double rho = reader.number("rho", 0.9, 0.0, 1.0);
  const double epsilon = reader.number("epsilon", 1e-6, 0.0);
  return std::make_unique<Adadelta>(rho, epsilon, reader.number("weight_decay", 0.0, 0.0));
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("adadelta", make);

}  // namespace
}  // namespace dtrain::optim
