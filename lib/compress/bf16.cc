// "bf16": each value rounded to the nearest bfloat16 (of two the even one), 2 bytes. Nothing is remembered.
#include <bit>

#include "base/vectorize.h"
#include "compress/method.h"

namespace dtrain::compress {
namespace {

// A NaN keeps its sign and becomes a quiet one: rounding could carry its last bits into the sign.
[[gnu::always_inline]] inline uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

[[gnu::always_inline]] inline float from_bf16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

DTRAIN_CLONES void encode_loop(const float* values, std::byte* out, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) store_le(out + 2 * i, to_bf16(values[i]));
}

DTRAIN_CLONES void decode_loop(const std::byte* from, float* out, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = from_bf16(load_le<uint16_t>(from + 2 * i));
}

DTRAIN_CLONES void add_loop(const std::byte* from, float* into, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) into[i] += from_bf16(load_le<uint16_t>(from + 2 * i));
}

class Bf16Codec final : public Codec {
 public:
  std::string name() const override { return "bf16"; }
  CodecId id() const override { return CodecId::kBf16; }
  bool valid(ByteSpan payload, size_t n) const override { return payload.size() == 2 * n; }
  void decode(ByteSpan payload, std::span<float> out) const override {
    decode_loop(payload.data(), out.data(), out.size());
  }
  void decode_add(ByteSpan payload, std::span<float> into) const override {
    add_loop(payload.data(), into.data(), into.size());
  }
};

const Bf16Codec codec_of_bf16;

class Bf16 final : public Method {
 public:
  const Codec& codec() const override { return codec_of_bf16; }
  size_t most_bytes(size_t n) const override { return 2 * n; }
  size_t encode(const EncodeContext&, std::span<const float> values, float* const*,
                MutableByteSpan out) const override {
    encode_loop(values.data(), out.data(), values.size());
    return 2 * values.size();
  }
};

std::unique_ptr<Method> make(config::TableReader&, const MethodSetting&) { return std::make_unique<Bf16>(); }

[[maybe_unused]] const bool registered = register_codec(codec_of_bf16) && MethodRegistry::instance().add("bf16", make);

}  // namespace
}  // namespace dtrain::compress
