// First message of a connection from one who is no task of the run: it wants to look, and asks later. Nothing but the
// protocol's version must agree. Answered with Welcome or Refuse.
#pragma once

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Guest {
  static constexpr MessageType kType = MessageType::kGuest;

  std::string program;  // "0.1.0", for people
  Digest nonce{};       // random, never used before; zero where the sender has no secret to prove

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("program", m.program);
    v("nonce", m.nonce);
  }
  bool operator==(const Guest&) const = default;
};

}  // namespace dtrain::wire
