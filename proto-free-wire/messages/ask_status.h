// A guest asks the coordinator how all tasks are doing. Answered with a StatusRow for every task and a StatusEnd.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct AskStatus {
  static constexpr MessageType kType = MessageType::kAskStatus;

  uint32_t request = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
  }
  bool operator==(const AskStatus&) const = default;
};

}  // namespace dtrain::wire
