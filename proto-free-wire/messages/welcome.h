// Answer to a Hello that agrees: who answers.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;

  uint32_t rank = 0;
  uint64_t incarnation = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("rank", m.rank);
    v("incarnation", m.incarnation);
  }
  bool operator==(const Welcome&) const = default;
};

}  // namespace dtrain::wire
