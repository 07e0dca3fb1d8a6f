// A region of memory that the other side may map for reading; its descriptor travels beside this frame. Transport only.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct MemoryOffered {
  static constexpr MessageType kType = MessageType::kMemoryOffered;

  uint32_t region = 0;  // the sender's number for it, never used again
  uint64_t bytes = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("region", m.region);
    v("bytes", m.bytes);
  }
  bool operator==(const MemoryOffered&) const = default;
};

}  // namespace dtrain::wire
