// "2bit": the sender adds each value to a residual r; r >= t sends +t and keeps r - t, r <= -t sends -t and keeps r +
// t, else nothing is sent. MXNet's rule (gradient_compression-inl.h).
//
//   payload = threshold  f32, finite, above 0
//             word*      u32; sixteen values each
//   values come in groups of 256, the last one of m <= 256: its W = ceil(m / 16) words hold value i of the group in
//   word i mod W, bits 2·(i div W) and the next. 0 nothing, 3 +t, 2 -t (MXNet's), 1 a value that is not finite.
//
// That is with a number as `threshold`. It is one for sums over samples, as MXNet's workers push; dtrain's push means
// over a micro-batch, so t is threshold / samples there. A value that is larger than t at every step gets ever further
// behind, at the learning rates and with the momentum of uncompressed training until it diverges; where t is too large
// for small ones, these wait for long.
//
// "auto", the default, takes t = Σr²/Σ|r| over the chunk, the mean of |r| weighted by itself, and sends the nearest of
// -t, 0, +t: from t/2 on, so that what is kept of a value below 3t/2 is at most t/2. Of exponentially distributed sizes
// that is the quantizer of three levels with the least square of the error (Lloyd 1982: t is the mean of the sizes from
// t/2 on), of normally distributed ones within 2 % of it. What is kept is always smaller than what there was: error
// feedback holds, whatever the scale of the gradients. The momentum of SGD acts ahead of that, at the sender, unless
// servers clip the norm of gradients: at the servers it would go on moving by what comes late.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/vectorize.h"
#include "compress/chunk_statistics.h"
#include "compress/method.h"
#include "compress/packed_codes.h"
#include "compress/sender_momentum.h"

namespace dtrain::compress {
namespace {

using Codes = PackedCodes<2>;
constexpr size_t kGroup = Codes::kGroup;
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();

size_t bytes_of(size_t n) { return 4 + 4 * Codes::words(n); }

// What is sent for a residual, and from which size on.
struct Levels {
  float t, from;
};

// 0, 3, 2 or 1, as above.
[[gnu::always_inline]] inline uint32_t code_of(float x, Levels k) {
  uint32_t code = x >= k.from ? 3u : 0u;
  code = x <= -k.from ? 2u : code;
  return std::fabs(x) <= kMost ? code : 1u;
}

[[gnu::always_inline]] inline float value_of(uint32_t code, float t) {
  float value = code == 3 ? t : 0.0f;
  value = code == 2 ? -t : value;
  return code == 1 ? kNotFinite : value;
}

// The residual of what is not finite is 0: it is said once.
[[gnu::always_inline]] inline float rest_of(float x, Levels k) {
  float rest = x >= k.from ? x - k.t : x;
  rest = x <= -k.from ? x + k.t : rest;
  return std::fabs(x) <= kMost ? rest : 0.0f;
}

DTRAIN_CLONES void encode_groups(float* r, Levels k, uint32_t* words, size_t groups) {
  for (size_t g = 0; g < groups; ++g, r += kGroup, words += kLanes) {
    uint32_t w[kLanes] = {};
    for (uint32_t j = 0; j < 16; ++j) {
      float* const row = r + j * kLanes;
      DTRAIN_INDEPENDENT
      for (size_t l = 0; l < kLanes; ++l) {
        const float x = row[l];
        w[l] |= code_of(x, k) << 2 * j;
        row[l] = rest_of(x, k);
      }
    }
    std::memcpy(words, w, sizeof w);
  }
}

DTRAIN_CLONES void decode_groups(const std::byte* words, float t, float* out, size_t groups) {
  Codes::decode_groups<false>(words, out, groups, [t](uint32_t code) { return value_of(code, t); });
}

DTRAIN_CLONES void add_groups(const std::byte* words, float t, float* into, size_t groups) {
  Codes::decode_groups<true>(words, into, groups, [t](uint32_t code) { return value_of(code, t); });
}

template <bool kAdd>
void decode_all(ByteSpan payload, std::span<float> out) {
  const float t = load_le<float>(payload.data());
  const std::byte* const words = payload.data() + 4;
  (kAdd ? add_groups : decode_groups)(words, t, out.data(), out.size() / kGroup);
  Codes::decode_rest<kAdd>(words, out, [t](uint32_t code) { return value_of(code, t); });
}

class TwoBitCodec final : public Codec {
 public:
  std::string name() const override { return "2bit"; }
  CodecId id() const override { return CodecId::kTwoBit; }
  bool valid(ByteSpan payload, size_t n) const override {
    if (payload.size() != bytes_of(n)) return false;
    const float t = load_le<float>(payload.data());
    return t > 0 && t <= kMost;
  }
  void decode(ByteSpan payload, std::span<float> out) const override { decode_all<false>(payload, out); }
  void decode_add(ByteSpan payload, std::span<float> into) const override { decode_all<true>(payload, into); }
};

const TwoBitCodec codec_of_two_bit;

void forget_what_is_not_finite(float* u, size_t n) {
  for (size_t i = 0; i < n; ++i) u[i] = std::isfinite(u[i]) ? u[i] : 0.0f;
}

class TwoBit final : public Method {
 public:
  TwoBit(std::optional<double> threshold, std::optional<SenderMomentum> momentum)
      : threshold_(threshold), momentum_(momentum) {}
  const Codec& codec() const override { return codec_of_two_bit; }
  size_t state_arrays() const override { return momentum_ ? 2 : 1; }
  bool takes_momentum() const override { return momentum_.has_value(); }
  size_t most_bytes(size_t n) const override { return bytes_of(n); }
  size_t encode(const EncodeContext& c, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size(), groups = n / kGroup, m = n % kGroup, w = (m + 15) / 16;
    float* const r = state[0];
    if (momentum_) momentum_->add(c, 1, values, state[1], r);
    const Sizes sizes = momentum_ ? sizes_of(r, n) : add_to_residual(r, values.data(), n);
    const Levels k = levels(c, sizes);
    store_le(out.data(), k.t);
    uint32_t words[kLanes * 16];
    for (size_t g = 0; g < groups; g += 16) {  // the payload is not aligned
      const size_t some = std::min<size_t>(16, groups - g);
      encode_groups(r + g * kGroup, k, words, some);
      std::memcpy(out.data() + 4 + g * 4 * kLanes, words, some * 4 * kLanes);
    }
    std::fill_n(words, kLanes, 0u);
    float* const tail = r + groups * kGroup;
    for (size_t i = 0; i < m; ++i) {
      words[i % w] |= code_of(tail[i], k) << 2 * (i / w);
      tail[i] = rest_of(tail[i], k);
    }
    std::memcpy(out.data() + 4 + groups * 4 * kLanes, words, 4 * w);
    if (momentum_ && !std::isfinite(sizes.sum)) forget_what_is_not_finite(state[1], n);
    return bytes_of(n);
  }

 private:
  // Above 0 and finite for whatever sum: zeros, tiny numbers, infinity, NaN.
  Levels levels(const EncodeContext& c, const Sizes& sizes) const {
    const double wanted = threshold_ ? *threshold_ / c.samples : sizes.squares / sizes.sum;
    constexpr double kLeast = std::numeric_limits<float>::min();
    const auto t = static_cast<float>(wanted >= kLeast ? std::min<double>(wanted, kMost) : kLeast);
    return {t, threshold_ ? t : t / 2};
  }

  const std::optional<double> threshold_;
  const std::optional<SenderMomentum> momentum_;
};

std::unique_ptr<Method> make(config::TableReader& reader, const MethodSetting& setting) {
  if (reader.is_word("threshold", "auto") || !reader.has("threshold"))
    return std::make_unique<TwoBit>(std::nullopt, SenderMomentum::of(setting));
  const double threshold = reader.positive_number("threshold", 0.5);
  return std::make_unique<TwoBit>(threshold, std::nullopt);
}

[[maybe_unused]] const bool registered =
    register_codec(codec_of_two_bit) && MethodRegistry::instance().add("2bit", make);

}  // namespace
}  // namespace dtrain::compress
