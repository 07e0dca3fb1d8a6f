// A task cannot go on, and says why; the coordinator ends the run.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Failure {
  static constexpr MessageType kType = MessageType::kFailure;

  uint8_t exit_code = 0;
  std::string reason;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("exit_code", m.exit_code);
    v("reason", m.reason);
  }
  bool operator==(const Failure&) const = default;
};

}  // namespace dtrain::wire
