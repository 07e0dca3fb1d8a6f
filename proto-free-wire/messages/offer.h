// A worker has the sum of the micro-batches [first, last) of `step` for every chunk of `block`, and keeps it until
// Absorbed.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Offer {
  static constexpr MessageType kType = MessageType::kOffer;

  int64_t step = 0;
  uint32_t block = 0;
  uint32_t first = 0, last = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("block", m.block);
    v("first", m.first);
    v("last", m.last);
  }
  bool operator==(const Offer&) const = default;
};

}  // namespace dtrain::wire
