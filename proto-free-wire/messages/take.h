// A server has room for a node that was offered: send these chunks of it.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Take {
  static constexpr MessageType kType = MessageType::kTake;

  int64_t step = 0;
  uint32_t block = 0;
  uint32_t first = 0, last = 0;
  uint32_t chunks = 0;  // bit i: chunk i of the block

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("block", m.block);
    v("first", m.first);
    v("last", m.last);
    v("chunks", m.chunks);
  }
  bool operator==(const Take&) const = default;
};

}  // namespace dtrain::wire
