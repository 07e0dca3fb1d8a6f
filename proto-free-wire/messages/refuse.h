// Answer to a Hello that does not agree; the connection ends after it.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Refuse {
  static constexpr MessageType kType = MessageType::kRefuse;

  uint8_t exit_code = 0;  // what the refused task should exit with
  std::string field;      // "run_digest"
  std::string ours;       // of the refusing side, for people
  std::string theirs;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("exit_code", m.exit_code);
    v("field", m.field);
    v("ours", m.ours);
    v("theirs", m.theirs);
  }
  bool operator==(const Refuse&) const = default;
};

}  // namespace dtrain::wire
