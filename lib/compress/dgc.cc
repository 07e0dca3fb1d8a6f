// "dgc": deep gradient compression (Lin et al. 2018). The sender clips the gradient, applies the optimizer's momentum
// to it (u = m·u + g) before it accumulates (v += u), sends the largest of |v| and sets u and v to zero there. With
// Nesterov's momentum u = m·(u + g), v += u + g (theirs too). The share that is sent falls from 25 % to `ratio` over
// the first `warmup` steps, geometrically.
//
// The clipping: the paper's bound for each of N workers is 1/sqrt(N) of that for their mean. A sum over k of K
// micro-batches, of which the servers take the mean, may here have clip_norm·sqrt(k·K): for k = 1 that is 1/sqrt(K) of
// the bound, on the scale of a mean. As in the paper's code each part is clipped by itself, here a chunk, since it
// leaves before the others are known.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/vectorize.h"
#include "compress/chunk_statistics.h"
#include "compress/method.h"
#include "compress/sparse.h"

namespace dtrain::compress {
namespace {

constexpr double kFirstRatio = 0.25;

DTRAIN_CLONES void heavy_ball(float* u, float* v, const float* g, float scale, float momentum, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float moved = momentum * u[i] + scale * g[i];
    u[i] = moved;
    v[i] += moved;
  }
}

DTRAIN_CLONES void nesterov(float* u, float* v, const float* g, float scale, float momentum, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float x = scale * g[i];
    const float moved = momentum * (u[i] + x);
    u[i] = moved;
    v[i] += moved + x;
  }
}

class Dgc final : public Method {
 public:
  struct Keys {
    double ratio = 0;
    int64_t warmup = 0;
    std::optional<double> clip_norm;
    float momentum = 0;
    bool nesterov = false;
  };
  explicit Dgc(Keys keys) : keys_(keys) {}
  const Codec& codec() const override { return sparse_codec(); }
  size_t state_arrays() const override { return 2; }
  bool takes_momentum() const override { return true; }
  size_t most_bytes(size_t n) const override {
    return sparse_bytes(sparse_count(n, keys_.warmup > 0 ? std::max(keys_.ratio, kFirstRatio) : keys_.ratio));
  }
  size_t encode(const EncodeContext& c, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size();
    float *const u = state[0], *const v = state[1];
    (keys_.nesterov ? nesterov : heavy_ball)(u, v, values.data(), clip_factor(c, values), keys_.momentum, n);
    const std::vector<uint16_t> places = largest({v, n}, sparse_count(n, ratio(c.step)));
    const size_t bytes = write_sparse(places, v, out);
    for (const uint16_t i : places) u[i] = v[i] = 0;
    return bytes;
  }

 private:
  double ratio(int64_t step) const {
    if (step >= keys_.warmup || keys_.ratio >= kFirstRatio) return keys_.ratio;
    const double done = static_cast<double>(step) / static_cast<double>(keys_.warmup);
    return kFirstRatio * std::pow(keys_.ratio / kFirstRatio, done);
  }

  // 1 where there is nothing to clip, or nothing finite.
  float clip_factor(const EncodeContext& c, std::span<const float> values) const {
    if (!keys_.clip_norm) return 1;
    const double norm = std::sqrt(sum_of_squares(values.data(), values.size()));
    const double most = *keys_.clip_norm * std::sqrt(static_cast<double>(c.summed) * c.micro_batches);
    return norm > most && std::isfinite(norm) ? static_cast<float>(most / norm) : 1;
  }

  const Keys keys_;
};

std::unique_ptr<Method> make(config::TableReader& reader, const MethodSetting& setting) {
  Dgc::Keys keys;
  keys.ratio = reader.number("ratio", 0.001, 1e-5, 0.5);
  keys.warmup = reader.integer("warmup", 0, 0);
  const double clip_norm = reader.positive_number("clip_norm", 1.0);
  if (reader.has("clip_norm")) keys.clip_norm = clip_norm;
  keys.momentum = static_cast<float>(setting.momentum);
  keys.nesterov = setting.nesterov;
  if (setting.use == MethodSetting::Use::kParameters)
    reader.error("type", "'dgc' is a rule for gradients; for parameters choose another, as \"2bit\"");
  return std::make_unique<Dgc>(keys);
}

[[maybe_unused]] const bool registered = MethodRegistry::instance().add("dgc", make);

}  // namespace
}  // namespace dtrain::compress
