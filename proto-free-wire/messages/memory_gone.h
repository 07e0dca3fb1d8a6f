// The sender gave a region back to its system: nothing refers to it any more. Transport only.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct MemoryGone {
  static constexpr MessageType kType = MessageType::kMemoryGone;

  uint32_t region = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("region", m.region);
  }
  bool operator==(const MemoryGone&) const = default;
};

}  // namespace dtrain::wire
