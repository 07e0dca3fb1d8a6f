// A guest asks a shard server which version it can give at once. Answered with Standing.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct AskStanding {
  static constexpr MessageType kType = MessageType::kAskStanding;

  uint32_t request = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
  }
  bool operator==(const AskStanding&) const = default;
};

}  // namespace dtrain::wire
