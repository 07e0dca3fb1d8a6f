// One chunk of a block at a version; the payload is its fp32 values.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct ParameterChunk {
  static constexpr MessageType kType = MessageType::kParameterChunk;

  uint32_t block = 0;
  int64_t version = 0;
  uint32_t chunk = 0;  // index within the block

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("block", m.block);
    v("version", m.version);
    v("chunk", m.chunk);
  }
  bool operator==(const ParameterChunk&) const = default;
};

}  // namespace dtrain::wire
