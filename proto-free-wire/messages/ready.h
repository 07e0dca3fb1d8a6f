// Answer to Begin: data open, memory planned, parameters loaded.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Ready {
  static constexpr MessageType kType = MessageType::kReady;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
  bool operator==(const Ready&) const = default;
};

}  // namespace dtrain::wire
