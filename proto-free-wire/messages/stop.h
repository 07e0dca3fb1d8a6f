// The coordinator ends the run for this task.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Stop {
  static constexpr MessageType kType = MessageType::kStop;

  uint8_t exit_code = 0;
  std::string reason;  // empty where the run is done

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("exit_code", m.exit_code);
    v("reason", m.reason);
  }
  bool operator==(const Stop&) const = default;
};

}  // namespace dtrain::wire
