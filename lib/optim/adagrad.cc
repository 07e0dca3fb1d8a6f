#include <algorithm>
#include <cmath>

#include "base/vectorize.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, rate, decay, epsilon;
};

DTRAIN_CLONES void step(Scalars k, size_t n, const float* g, const float* from, float* to, float* sum) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    const float s = sum[i] + d * d;
    sum[i] = s;
    to[i] = from[i] - k.rate * d / (std::sqrt(s) + k.epsilon);
  }
}

// torch.optim.Adagrad (Duchi et al. 2011).
class Adagrad final : public Optimizer {
 public:
  Adagrad(double rate_decay, double decay, double initial, double epsilon)
      : rate_decay_(rate_decay), decay_(decay), initial_(initial), epsilon_(epsilon) {}

  std::vector<std::string> slot_names() const override { return {"sum"}; }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    if (c.step == 0 || c.first) std::fill_n(slots[0], n, static_cast<float>(initial_));
    Scalars k;
    k.scale = c.scale;
    k.rate = static_cast<float>(c.rate / (1 + static_cast<double>(c.step) * rate_decay_));
    k.decay = static_cast<float>(decay_ * c.decay_multiplier);
    k.epsilon = static_cast<float>(epsilon_);
    step(k, n, gradient, from, to, slots[0]);
  }

 private:
  double rate_decay_, decay_, initial_, epsilon_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double rate_decay = reader.number("lr_decay", 0.0, 0.0);
  const double decay = reader.number("weight_decay", 0.0, 0.0);
  const double initial = reader.number("initial_accumulator", 0.0, 0.0);
  return std::make_unique<Adagrad>(rate_decay, decay, initial, reader.number("epsilon", 1e-10, 0.0));
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("adagrad", make);

}  // namespace
}  // namespace dtrain::optim
