// What the bytes of an encoded chunk mean, and how they become values again: the receiver's half of compression. Each
// codec is one file that registers itself before main; immutable after that, safe for concurrent use. Little-endian.
//
// What is decoded comes from a peer: valid() must hold before anything is decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"

namespace dtrain::compress {

// As it travels. 0 is no codec: plain fp32.
enum class CodecId : uint8_t { kNone = 0, kFp16 = 1, kBf16 = 2, kOneBit = 3, kTwoBit = 4, kSparse = 5 };

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;
  virtual CodecId id() const = 0;

  // Whether `payload` is one of n elements.
  virtual bool valid(ByteSpan payload, size_t n) const = 0;
  // REQUIRES valid(payload, size of the span). The same bits on every instruction set.
  virtual void decode(ByteSpan payload, std::span<float> out) const = 0;
  // into[i] += decoded[i], but that elements which were not sent may be left as they are.
  virtual void decode_add(ByteSpan payload, std::span<float> into) const = 0;
};

// Null for an id that no codec has.
const Codec* find_codec(uint8_t id);
// Of a codec's own file; `codec` lives for ever.
bool register_codec(const Codec& codec);

}  // namespace dtrain::compress
