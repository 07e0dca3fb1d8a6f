// Says that the sender lives, when it has nothing else to say.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Heartbeat {
  static constexpr MessageType kType = MessageType::kHeartbeat;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
  bool operator==(const Heartbeat&) const = default;
};

}  // namespace dtrain::wire
