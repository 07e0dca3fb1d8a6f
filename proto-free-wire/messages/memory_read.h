// So many more payloads that were referred to, in the order in which they came, were read: their memory is the sender's
// again. Transport only.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct MemoryRead {
  static constexpr MessageType kType = MessageType::kMemoryRead;

  uint32_t count = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("count", m.count);
  }
  bool operator==(const MemoryRead&) const = default;
};

}  // namespace dtrain::wire
