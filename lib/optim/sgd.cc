#include "base/vectorize.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, rate, momentum, decay;
};

DTRAIN_CLONES void plain(Scalars k, size_t n, const float* g, const float* from, float* to) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] = from[i] - k.rate * (k.scale * g[i]);
}

DTRAIN_CLONES void decayed(Scalars k, size_t n, const float* g, const float* from, float* to) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] = from[i] - k.rate * (k.scale * g[i] + k.decay * from[i]);
}

// With decay 0 the term added is a zero, which changes no bits but the sign of a zero.
DTRAIN_CLONES void heavy_ball(Scalars k, size_t n, const float* g, const float* from, float* to, float* buffer) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    const float b = k.momentum * buffer[i] + d;
    buffer[i] = b;
    to[i] = from[i] - k.rate * b;
  }
}

DTRAIN_CLONES void nesterov(Scalars k, size_t n, const float* g, const float* from, float* to, float* buffer) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    const float b = k.momentum * buffer[i] + d;
    buffer[i] = b;
    to[i] = from[i] - k.rate * (d + k.momentum * b);
  }
}

// torch.optim.SGD with dampening 0. Momentum starts at zero, which gives PyTorch's first step (buffer = gradient).
class Sgd final : public Optimizer {
 public:
  Sgd(double momentum, double decay, bool nesterov)
      : momentum_(static_cast<float>(momentum)), decay_(decay), nesterov_(nesterov) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0.0f) return {};
    return {"momentum_buffer"};
  }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    const Scalars k{c.scale, static_cast<float>(c.rate), momentum_, static_cast<float>(decay_ * c.decay_multiplier)};
    if (momentum_ != 0.0f) {
      (nesterov_ ? nesterov : heavy_ball)(k, n, gradient, from, to, slots[0]);
    } else {
      (k.decay != 0.0f ? decayed : plain)(k, n, gradient, from, to);
    }
  }

 private:
  float momentum_;
  double decay_;
  bool nesterov_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double momentum = reader.number("momentum", 0.0, 0.0, 1.0);
  const double decay = reader.number("weight_decay", 0.0, 0.0);
  const bool nesterov = reader.boolean("nesterov", false);
  if (nesterov && momentum == 0.0) reader.error("nesterov", "'nesterov' in [optimizer] needs a 'momentum' above 0");
  return std::make_unique<Sgd>(momentum, decay, nesterov);
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("sgd", make);

}  // namespace
}  // namespace dtrain::optim
