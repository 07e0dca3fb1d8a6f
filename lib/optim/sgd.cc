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

// Of gradients that have had their momentum: only what the decay adds still gets it.
DTRAIN_CLONES void decay_heavy_ball(Scalars k, size_t n, const float* g, const float* from, float* to, float* buffer) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float b = k.momentum * buffer[i] + k.decay * from[i];
    buffer[i] = b;
    to[i] = from[i] - k.rate * (k.scale * g[i] + b);
  }
}

DTRAIN_CLONES void decay_nesterov(Scalars k, size_t n, const float* g, const float* from, float* to, float* buffer) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.decay * from[i];
    const float b = k.momentum * buffer[i] + d;
    buffer[i] = b;
    to[i] = from[i] - k.rate * (k.scale * g[i] + d + k.momentum * b);
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

  SplitMomentum split_momentum() const override;

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

// What is left of it where senders apply the momentum, as in the code of Lin et al. 2018 (DGCSGD).
class SgdOfMomentum final : public Optimizer {
 public:
  SgdOfMomentum(float momentum, double decay, bool nesterov)
      : momentum_(momentum), decay_(decay), nesterov_(nesterov) {}

  std::vector<std::string> slot_names() const override {
    if (decay_ == 0.0 || momentum_ == 0.0f) return {};
    return {"momentum_buffer"};
  }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    const Scalars k{c.scale, static_cast<float>(c.rate), momentum_, static_cast<float>(decay_ * c.decay_multiplier)};
    if (!slot_names().empty()) {
      (nesterov_ ? decay_nesterov : decay_heavy_ball)(k, n, gradient, from, to, slots[0]);
    } else {
      (k.decay != 0.0f ? decayed : plain)(k, n, gradient, from, to);
    }
  }

 private:
  const float momentum_;
  const double decay_;
  const bool nesterov_;
};

Optimizer::SplitMomentum Sgd::split_momentum() const {
  return {double{momentum_}, nesterov_, std::make_unique<SgdOfMomentum>(momentum_, decay_, nesterov_)};
}

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
