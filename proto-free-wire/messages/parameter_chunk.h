// One chunk of a block at a version; the payload is its fp32 values, or, encoded, what is to be added to those of an
// earlier version.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct ParameterChunk {
  static constexpr MessageType kType = MessageType::kParameterChunk;

  uint32_t block = 0;
  int64_t version = 0;
  uint32_t chunk = 0;  // index within the block
  int64_t base = -1;   // the earlier version; -1: the payload is the values
  uint8_t codec = 0;   // of the payload (compress::CodecId); 0: fp32

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("block", m.block);
    v("version", m.version);
    v("chunk", m.chunk);
    v("base", m.base);
    v("codec", m.codec);
  }
  bool operator==(const ParameterChunk&) const = default;
};

}  // namespace dtrain::wire
