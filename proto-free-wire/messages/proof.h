// Answer to a Challenge whose own proof holds: that of the side that dialled. What follows is Welcome or Refuse.
#pragma once

#include "base/sha256.h"
#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Proof {
  static constexpr MessageType kType = MessageType::kProof;

  Digest proof{};  // see FORMAT.md, "The secret of a run"

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("proof", m.proof);
  }
  bool operator==(const Proof&) const = default;
};

}  // namespace dtrain::wire
