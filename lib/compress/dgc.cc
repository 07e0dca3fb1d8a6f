// "dgc": deep gradient compression (Lin et al. 2018). The sender clips the gradient, applies the optimizer's momentum
// to it (u = m·u + g) before it accumulates (v += u), sends the largest of |v| and sets v to zero there, and u as well
// with `masking`.
//
// Masking, the paper's, is against momentum that is old when it arrives. But it takes 1 / (1 - m) of every gradient
// that is sent at once, as most of the large ones are, and in the warm-up nearly all: what remains is SGD without
// momentum at the same learning rate. So it is not the default here (tests/validation/compression_accuracy.py measures
// both).
//
// The clipping: the paper's bound for each of N workers is 1/sqrt(N) of that for their mean. A sum over k of K
// micro-batches, of which the servers take the mean, may here have clip_norm·sqrt(k·K): for k = 1 that is 1/sqrt(K) of
// the bound, on the scale of a mean. As in the paper's code each part is clipped by itself, here a chunk, since it
// leaves before the others are known.
#include <cmath>
#include <optional>

#include "compress/chunk_statistics.h"
#include "compress/method.h"
#include "compress/sender_momentum.h"
#include "compress/sparse.h"
#include "compress/sparsity.h"

namespace dtrain::compress {
namespace {

class Dgc final : public Method {
 public:
  struct Keys {
    Sparsity sparsity;
    SenderMomentum momentum;
    bool masking = false;
    std::optional<double> clip_norm;
  };
  explicit Dgc(Keys keys) : keys_(keys) {}
  const Codec& codec() const override { return sparse_codec(); }
  size_t state_arrays() const override { return 2; }
  bool takes_momentum() const override { return true; }
  size_t most_bytes(size_t n) const override { return sparse_bytes(sparse_count(n, keys_.sparsity.most())); }
  size_t lasting_bytes(size_t n) const override { return sparse_bytes(sparse_count(n, keys_.sparsity.last())); }
  size_t encode(const EncodeContext& c, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size();
    float *const u = state[0], *const v = state[1];
    keys_.momentum.add(c, clip_factor(c, values), values, u, v);
    const std::vector<uint16_t> places = largest({v, n}, sparse_count(n, keys_.sparsity.ratio(c)));
    const size_t bytes = write_sparse(places, v, out);
    for (const uint16_t i : places) {
      if (keys_.masking || !std::isfinite(v[i])) u[i] = 0;
      v[i] = 0;
    }
    return bytes;
  }

 private:
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
  const bool parameters = setting.use == MethodSetting::Use::kParameters;
  Dgc::Keys keys{.sparsity = Sparsity(reader, 0.001, setting.use),
                 .momentum = SenderMomentum(setting.momentum, setting.nesterov),
                 .masking = reader.boolean("masking", false)};
  const double clip_norm = reader.positive_number("clip_norm", 1.0);
  if (reader.has("clip_norm")) keys.clip_norm = clip_norm;
  if (parameters) reader.error("type", "'dgc' is a rule for gradients; for parameters choose another, as \"2bit\"");
  return std::make_unique<Dgc>(keys);
}

[[maybe_unused]] const bool registered = MethodRegistry::instance().add("dgc", make);

}  // namespace
}  // namespace dtrain::compress
