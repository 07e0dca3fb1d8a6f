// The answer to MemoryOffered: whether the region is mapped, so that payloads may be referred to. Transport only.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct MemoryShared {
  static constexpr MessageType kType = MessageType::kMemoryShared;

  uint32_t region = 0;
  bool mapped = false;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("region", m.region);
    v("mapped", m.mapped);
  }
  bool operator==(const MemoryShared&) const = default;
};

}  // namespace dtrain::wire
