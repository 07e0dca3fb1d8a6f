#include "base/vectorize.h"
#include "optim/registry.h"
#include "optim/trust_ratio.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, rate, momentum, decay;  // rate: the parameter's own, with the ratio
};

DTRAIN_CLONES void plain(Scalars k, size_t n, const float* g, const float* from, float* to) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] = from[i] - k.rate * (k.scale * g[i] + k.decay * from[i]);
}

DTRAIN_CLONES void with_momentum(Scalars k, size_t n, const float* g, const float* from, float* to, float* buffer) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float b = k.momentum * buffer[i] + k.rate * (k.scale * g[i] + k.decay * from[i]);
    buffer[i] = b;
    to[i] = from[i] - b;
  }
}

// You, Gitman and Ginsburg 2017, algorithm 1: the rate of a parameter is the run's, times trust · ‖w‖ / (‖g‖ +
// weight_decay · ‖w‖ + epsilon). Rates are inside the momentum, so that a change of the rate does not scale what was
// gathered before.
class Lars final : public Optimizer {
 public:
  Lars(double trust, double momentum, double decay, double epsilon)
      : trust_(trust), momentum_(static_cast<float>(momentum)), decay_(decay), epsilon_(epsilon) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0.0f) return {};
    return {"momentum_buffer"};
  }

  NormNeed norm_need() const override { return NormNeed::kGradient; }

  double ratio(const ParameterInfo& p, double values, double gradient) const override {
    if (!has_trust_ratio(p, values, gradient)) return 1.0;
    return trust_ * values / (gradient + decay_ * p.decay_multiplier * values + epsilon_);
  }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    const Scalars k{c.scale, static_cast<float>(c.rate * c.ratio), momentum_,
                    static_cast<float>(decay_ * c.decay_multiplier)};
    if (momentum_ != 0.0f) {
      with_momentum(k, n, gradient, from, to, slots[0]);
    } else {
      plain(k, n, gradient, from, to);
    }
  }

 private:
  double trust_;
  float momentum_;
  double decay_, epsilon_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double trust = reader.positive_number("trust", 0.001);
  const double momentum = reader.number("momentum", 0.0, 0.0, 1.0);
  const double decay = reader.number("weight_decay", 0.0, 0.0);
  return std::make_unique<Lars>(trust, momentum, decay, reader.number("epsilon", 1e-8, 0.0));
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("lars", make);

}  // namespace
}  // namespace dtrain::optim
