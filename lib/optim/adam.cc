#include <cmath>

#include "base/vectorize.h"
#include "optim/moments.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;         // rate / (1 − beta1^t)
  float correction2_sqrt;  // √(1 − beta2^t)
  float epsilon;
  float decay;  // adam: weight_decay; adamw: 1 − rate · weight_decay
};

DTRAIN_CLONES void l2(Scalars k, size_t n, const float* g, const float* from, float* to, float* mean, float* square) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    const float m = k.beta1 * mean[i] + k.one_minus_beta1 * d;
    const float v = k.beta2 * square[i] + k.one_minus_beta2 * d * d;
    mean[i] = m;
    square[i] = v;
    to[i] = from[i] - k.step_size * m / (std::sqrt(v) / k.correction2_sqrt + k.epsilon);
  }
}

DTRAIN_CLONES void decoupled(Scalars k, size_t n, const float* g, const float* from, float* to, float* mean,
                             float* square) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i];
    const float m = k.beta1 * mean[i] + k.one_minus_beta1 * d;
    const float v = k.beta2 * square[i] + k.one_minus_beta2 * d * d;
    mean[i] = m;
    square[i] = v;
    to[i] = k.decay * from[i] - k.step_size * m / (std::sqrt(v) / k.correction2_sqrt + k.epsilon);
  }
}

// torch.optim.Adam (Kingma and Ba 2015; weight_decay joins the gradient) and torch.optim.AdamW (Loshchilov and Hutter
// 2019; weight_decay shrinks the parameter).
class Adam final : public Optimizer {
 public:
  Adam(bool decoupled, double beta1, double beta2, double epsilon, double decay)
      : decoupled_(decoupled), beta1_(beta1), beta2_(beta2), epsilon_(epsilon), decay_(decay) {}

  std::vector<std::string> slot_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    Scalars k;
    k.scale = c.scale;
    k.beta1 = static_cast<float>(beta1_);
    k.one_minus_beta1 = static_cast<float>(1 - beta1_);
    k.beta2 = static_cast<float>(beta2_);
    k.one_minus_beta2 = static_cast<float>(1 - beta2_);
    k.step_size = static_cast<float>(c.rate / (1 - power(beta1_, c.step + 1)));
    k.correction2_sqrt = static_cast<float>(std::sqrt(1 - power(beta2_, c.step + 1)));
    k.epsilon = static_cast<float>(epsilon_);
    const double decay = decay_ * c.decay_multiplier;
    k.decay = static_cast<float>(decoupled_ ? 1 - c.rate * decay : decay);
    (decoupled_ ? decoupled : l2)(k, n, gradient, from, to, slots[0], slots[1]);
  }

 private:
  bool decoupled_;
  double beta1_, beta2_, epsilon_, decay_;
};

// PyTorch's defaults: 0 for adam, 0.01 for adamw; a run file's default is 0 for both.
std::unique_ptr<Optimizer> make(config::TableReader& reader, bool decoupled) {
  const double beta1 = read_beta(reader, "beta1", 0.9);
  const double beta2 = read_beta(reader, "beta2", 0.999);
  const double epsilon = reader.number("epsilon", 1e-8, 0.0);
  return std::make_unique<Adam>(decoupled, beta1, beta2, epsilon, reader.number("weight_decay", 0.0, 0.0));
}

[[maybe_unused]] const bool adam =
    OptimizerRegistry::instance().add("adam", [](config::TableReader& reader) { return make(reader, false); });
[[maybe_unused]] const bool adamw =
    OptimizerRegistry::instance().add("adamw", [](config::TableReader& reader) { return make(reader, true); });

}  // namespace
}  // namespace dtrain::optim
