// A task tells the coordinator that it is there, what it does, and what its host offers. Sent once a connection.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Join {
  static constexpr MessageType kType = MessageType::kJoin;

  bool computes = false;  // has the worker role
  bool serves = false;    // holds parameters
  uint32_t threads = 0;   // threads that it could give to one micro-batch
  uint64_t incarnation = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("computes", m.computes);
    v("serves", m.serves);
    v("threads", m.threads);
    v("incarnation", m.incarnation);
  }
  bool operator==(const Join&) const = default;
};

}  // namespace dtrain::wire
