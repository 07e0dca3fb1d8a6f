// New values of a tensor from element `first` on; at most a chunk, and within one of the ranges.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct PutChunk {
  static constexpr MessageType kType = MessageType::kPutChunk;

  uint64_t put = 0;
  int64_t first = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("first", m.first);
  }
  bool operator==(const PutChunk&) const = default;
};

}  // namespace dtrain::wire
