// "fp16": each value rounded to the nearest IEEE 754 half (of two the even one), 2 bytes; what is beyond its largest
// number (65,504) becomes infinite. Nothing is remembered.
#include <bit>

#include "base/vectorize.h"
#include "compress/method.h"

namespace dtrain::compress {
namespace {

// Without branches, so that it vectorises: numbers below the smallest normal half are rounded by the addition of a
// number whose last bit is worth as much as the last bit of such a half.
[[gnu::always_inline]] inline uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
  constexpr uint32_t kShift = ((127 - 15) + (23 - 10) + 1) << 23;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShift)) - kShift;
  const uint32_t normal = (magnitude - ((127u - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  uint32_t half = magnitude < 113u << 23 ? small : normal;
  half = magnitude >= (127u + 16) << 23 ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<uint16_t>(half | sign >> 16);
}

[[gnu::always_inline]] inline float from_half(uint16_t half) {
  const uint32_t shifted = (half & 0x7fffu) << 13, exponent = shifted & 0x0f800000u;
  const uint32_t normal = shifted + ((127u - 15) << 23);
  const uint32_t special = normal + ((128u - 16) << 23);
  constexpr uint32_t kSmallest = 113u << 23;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(normal + (1u << 23)) - std::bit_cast<float>(kSmallest));
  uint32_t bits = exponent == 0 ? small : normal;
  bits = exponent == 0x0f800000u ? special : bits;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(half & 0x8000u) << 16);
}

DTRAIN_CLONES void encode_loop(const float* values, std::byte* out, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) store_le(out + 2 * i, to_half(values[i]));
}

DTRAIN_CLONES void decode_loop(const std::byte* from, float* out, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = from_half(load_le<uint16_t>(from + 2 * i));
}

DTRAIN_CLONES void add_loop(const std::byte* from, float* into, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) into[i] += from_half(load_le<uint16_t>(from + 2 * i));
}

class Fp16Codec final : public Codec {
 public:
  std::string name() const override { return "fp16"; }
  CodecId id() const override { return CodecId::kFp16; }
  bool valid(ByteSpan payload, size_t n) const override { return payload.size() == 2 * n; }
  void decode(ByteSpan payload, std::span<float> out) const override {
    decode_loop(payload.data(), out.data(), out.size());
  }
  void decode_add(ByteSpan payload, std::span<float> into) const override {
    add_loop(payload.data(), into.data(), into.size());
  }
};

const Fp16Codec codec_of_fp16;

class Fp16 final : public Method {
 public:
  const Codec& codec() const override { return codec_of_fp16; }
  size_t most_bytes(size_t n) const override { return 2 * n; }
  size_t encode(const EncodeContext&, std::span<const float> values, float* const*,
                MutableByteSpan out) const override {
    encode_loop(values.data(), out.data(), values.size());
    return 2 * values.size();
  }
};

std::unique_ptr<Method> make(config::TableReader&, const MethodSetting&) { return std::make_unique<Fp16>(); }

[[maybe_unused]] const bool registered = register_codec(codec_of_fp16) && MethodRegistry::instance().add("fp16", make);

}  // namespace
}  // namespace dtrain::compress
