#include "compress/sender_momentum.h"

#include <cmath>

#include "base/vectorize.h"

namespace dtrain::compress {
namespace {

struct Factors {
  float scale;
  float kept, carried;   // of u: what it keeps, and what it moves by in the steps that passed
  float taken, applied;  // of g: what u takes, and what moves at once
};

DTRAIN_CLONES void add_loop(Factors f, size_t n, const float* g, float* u, float* moved) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float x = f.scale * g[i], before = u[i];
    u[i] = f.kept * before + f.taken * x;
    moved[i] += f.carried * before + f.applied * x;
  }
}

}  // namespace

std::optional<SenderMomentum> SenderMomentum::of(const MethodSetting& setting) {
  const bool gradients = setting.use == MethodSetting::Use::kGradients;
  if (!gradients || setting.momentum == 0 || setting.clip_norm) return std::nullopt;
  return SenderMomentum(setting.momentum, setting.nesterov);
}

void SenderMomentum::add(const EncodeContext& c, float scale, std::span<const float> gradient, float* u,
                         float* moved) const {
  // m^p, and m + m² + … + m^p.
  const auto p = static_cast<double>(c.passed);
  const double kept = c.passed == 1 ? momentum_ : std::pow(momentum_, p);
  const double carried = c.passed == 1 ? momentum_ : momentum_ < 1.0 ? momentum_ * (1 - kept) / (1 - momentum_) : p;
  const double taken = nesterov_ ? momentum_ : 1.0, applied = nesterov_ ? 1.0 + momentum_ : 1.0;
  add_loop({scale, static_cast<float>(kept), static_cast<float>(carried), static_cast<float>(taken),
            static_cast<float>(applied)},
           gradient.size(), gradient.data(), u, moved);
}

}  // namespace dtrain::compress
