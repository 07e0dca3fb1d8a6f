// Answer to a Hello or Guest from one who has a secret to one who says that it has: the proof of who answers, and
// something new to prove the same on.
#pragma once

#include <cstdint>

#include "base/sha256.h"
#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Challenge {
  static constexpr MessageType kType = MessageType::kChallenge;

  uint32_t rank = 0;  // of who answers
  Digest nonce{};     // random, never used before
  Digest proof{};     // see FORMAT.md, "The secret of a run"

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("rank", m.rank);
    v("nonce", m.nonce);
    v("proof", m.proof);
  }
  bool operator==(const Challenge&) const = default;
};

}  // namespace dtrain::wire
