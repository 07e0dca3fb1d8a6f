#include <cmath>

#include "base/vectorize.h"
#include "optim/moments.h"
#include "optim/registry.h"
#include "optim/trust_ratio.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float correction1;       // 1 − beta1^t
  float correction2_sqrt;  // √(1 − beta2^t)
  float epsilon, decay;
};

DTRAIN_CLONES void direct(Scalars k, size_t n, float* g, const float* from, float* mean, float* square) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i];
    const float m = k.beta1 * mean[i] + k.one_minus_beta1 * d;
    const float v = k.beta2 * square[i] + k.one_minus_beta2 * d * d;
    mean[i] = m;
    square[i] = v;
    g[i] = m / k.correction1 / (std::sqrt(v) / k.correction2_sqrt + k.epsilon) + k.decay * from[i];
  }
}

DTRAIN_CLONES void move(float rate, size_t n, const float* direction, const float* from, float* to) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] = from[i] - rate * direction[i];
}

// You et al. 2020, algorithm 2: Adam's direction with weight decay, as long as the parameter itself.
class Lamb final : public Optimizer {
 public:
  Lamb(double beta1, double beta2, double epsilon, double decay)
      : beta1_(beta1), beta2_(beta2), epsilon_(epsilon), decay_(decay) {}

  std::vector<std::string> slot_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  NormNeed norm_need() const override { return NormNeed::kDirection; }

  double ratio(const ParameterInfo& p, double values, double direction) const override {
    return has_trust_ratio(p, values, direction) ? values / direction : 1.0;
  }

  void prepare(const UpdateContext& c, size_t n, float* gradient, const float* from,
               float* const* slots) const override {
    Scalars k;
    k.scale = c.scale;
    k.beta1 = static_cast<float>(beta1_);
    k.one_minus_beta1 = static_cast<float>(1 - beta1_);
    k.beta2 = static_cast<float>(beta2_);
    k.one_minus_beta2 = static_cast<float>(1 - beta2_);
    k.correction1 = static_cast<float>(1 - power(beta1_, c.step + 1));
    k.correction2_sqrt = static_cast<float>(std::sqrt(1 - power(beta2_, c.step + 1)));
    k.epsilon = static_cast<float>(epsilon_);
    k.decay = static_cast<float>(decay_ * c.decay_multiplier);
    direct(k, n, gradient, from, slots[0], slots[1]);
  }

  void update(const UpdateContext& c, size_t n, const float* direction, const float* from, float* to,
              float* const*) const override {
    move(static_cast<float>(c.rate * c.ratio), n, direction, from, to);
  }

 private:
  double beta1_, beta2_, epsilon_, decay_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double beta1 = read_beta(reader, "beta1", 0.9);
  const double beta2 = read_beta(reader, "beta2", 0.999);
  const double epsilon = reader.number("epsilon", 1e-6, 0.0);
  return std::make_unique<Lamb>(beta1, beta2, epsilon, reader.number("weight_decay", 0.0, 0.0));
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("lamb", make);

}  // namespace
}  // namespace dtrain::optim
