// "1bit": the sign of each value and one scale, the mean of |value|; the sender adds what it got wrong to the next
// values (error feedback: e = x - sent). Seide et al. 2014; the scale is BytePS's `onebit`. As there the momentum of
// SGD acts ahead of that, at the sender: at the servers it turns the error of small values, which are sent far too
// large, into steps that diverge. Where servers clip the norm of gradients it stays with them.
//
//   payload = scale  f32, at least 0, or NaN: a value was not finite
//             word*  u32; 32 values each
//   values come in groups of 512, the last one of m <= 512: its W = ceil(m / 32) words hold value i of the group in
//   word i mod W, bit i div W. 1: -scale, 0: +scale.
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

using Codes = PackedCodes<1>;
constexpr size_t kGroup = Codes::kGroup, kBits = Codes::kPerWord;
constexpr float kMost = std::numeric_limits<float>::max();

size_t bytes_of(size_t n) { return 4 + 4 * Codes::words(n); }

[[gnu::always_inline]] inline float value_of(uint32_t negative, float scale) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) ^ negative << 31);
}

DTRAIN_CLONES void encode_groups(float* x, float scale, uint32_t* words, size_t groups) {
  for (size_t g = 0; g < groups; ++g, x += kGroup, words += kLanes) {
    uint32_t w[kLanes] = {};
    for (uint32_t j = 0; j < kBits; ++j) {
      float* const row = x + j * kLanes;
      DTRAIN_INDEPENDENT
      for (size_t l = 0; l < kLanes; ++l) {
        const uint32_t negative = std::bit_cast<uint32_t>(row[l]) >> 31;
        w[l] |= negative << j;
        row[l] -= value_of(negative, scale);
      }
    }
    std::memcpy(words, w, sizeof w);
  }
}

DTRAIN_CLONES void decode_groups(const std::byte* words, float scale, float* out, size_t groups) {
  Codes::decode_groups<false>(words, out, groups, [scale](uint32_t code) { return value_of(code, scale); });
}

DTRAIN_CLONES void add_groups(const std::byte* words, float scale, float* into, size_t groups) {
  Codes::decode_groups<true>(words, into, groups, [scale](uint32_t code) { return value_of(code, scale); });
}

template <bool kAdd>
void decode_all(ByteSpan payload, std::span<float> out) {
  const float scale = load_le<float>(payload.data());
  const std::byte* const words = payload.data() + 4;
  (kAdd ? add_groups : decode_groups)(words, scale, out.data(), out.size() / kGroup);
  Codes::decode_rest<kAdd>(words, out, [scale](uint32_t code) { return value_of(code, scale); });
}

class OneBitCodec final : public Codec {
 public:
  std::string name() const override { return "1bit"; }
  CodecId id() const override { return CodecId::kOneBit; }
  bool valid(ByteSpan payload, size_t n) const override {
    if (payload.size() != bytes_of(n)) return false;
    const float scale = load_le<float>(payload.data());
    return std::isnan(scale) || (scale >= 0 && scale <= kMost);
  }
  void decode(ByteSpan payload, std::span<float> out) const override { decode_all<false>(payload, out); }
  void decode_add(ByteSpan payload, std::span<float> into) const override { decode_all<true>(payload, into); }
};

const OneBitCodec codec_of_one_bit;

class OneBit final : public Method {
 public:
  explicit OneBit(std::optional<SenderMomentum> momentum) : momentum_(momentum) {}
  const Codec& codec() const override { return codec_of_one_bit; }
  size_t state_arrays() const override { return momentum_ ? 2 : 1; }
  bool takes_momentum() const override { return momentum_.has_value(); }
  size_t most_bytes(size_t n) const override { return bytes_of(n); }
  size_t encode(const EncodeContext& c, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size(), groups = n / kGroup, m = n % kGroup, w = (m + kBits - 1) / kBits;
    float* const x = state[0];
    if (momentum_) momentum_->add(c, 1, values, state[1], x);
    const Sizes sizes = momentum_ ? sizes_of(x, n) : add_to_residual(x, values.data(), n);
    const double mean = sizes.sum / static_cast<double>(n);
    const bool finite = mean <= static_cast<double>(kMost);
    const float scale = finite ? static_cast<float>(mean) : std::numeric_limits<float>::quiet_NaN();
    store_le(out.data(), scale);
    uint32_t words[kLanes * 8];
    for (size_t g = 0; g < groups; g += 8) {  // the payload is not aligned
      const size_t some = std::min<size_t>(8, groups - g);
      encode_groups(x + g * kGroup, scale, words, some);
      std::memcpy(out.data() + 4 + g * 4 * kLanes, words, some * 4 * kLanes);
    }
    std::fill_n(words, kLanes, 0u);
    float* const tail = x + groups * kGroup;
    for (size_t i = 0; i < m; ++i) {
      const uint32_t negative = std::bit_cast<uint32_t>(tail[i]) >> 31;
      words[i % w] |= negative << (i / w);
      tail[i] -= value_of(negative, scale);
    }
    std::memcpy(out.data() + 4 + groups * 4 * kLanes, words, 4 * w);
    for (size_t a = 0; !finite && a < state_arrays(); ++a) std::fill_n(state[a], n, 0.0f);  // it is said once
    return bytes_of(n);
  }

 private:
  const std::optional<SenderMomentum> momentum_;
};

std::unique_ptr<Method> make(config::TableReader&, const MethodSetting& setting) {
  return std::make_unique<OneBit>(SenderMomentum::of(setting));
}

[[maybe_unused]] const bool registered =
    register_codec(codec_of_one_bit) && MethodRegistry::instance().add("1bit", make);

}  // namespace
}  // namespace dtrain::compress
