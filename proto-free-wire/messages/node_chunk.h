// One chunk of a node; the payload is its values, fp32 or encoded.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct NodeChunk {
  static constexpr MessageType kType = MessageType::kNodeChunk;

  int64_t step = 0;
  uint32_t block = 0;
  uint32_t first = 0, last = 0;
  uint32_t chunk = 0;  // index within the block
  uint8_t codec = 0;   // of the payload (compress::CodecId); 0: fp32

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("block", m.block);
    v("first", m.first);
    v("last", m.last);
    v("chunk", m.chunk);
    v("codec", m.codec);
  }
  bool operator==(const NodeChunk&) const = default;
};

}  // namespace dtrain::wire
