// A server has committed every block that it holds to `version`.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Committed {
  static constexpr MessageType kType = MessageType::kCommitted;

  int64_t version = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("version", m.version);
  }
  bool operator==(const Committed&) const = default;
};

}  // namespace dtrain::wire
