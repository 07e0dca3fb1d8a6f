// The task leaves; its last message. The answer to Stop, or the wish of whoever started it.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Stopped {
  static constexpr MessageType kType = MessageType::kStopped;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
  bool operator==(const Stopped&) const = default;
};

}  // namespace dtrain::wire
