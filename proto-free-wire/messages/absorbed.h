// A server has all of an offered node, or needs it no more: the worker may reuse its memory.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Absorbed {
  static constexpr MessageType kType = MessageType::kAbsorbed;

  int64_t step = 0;
  uint32_t block = 0;
  uint32_t first = 0, last = 0;
  int64_t version = 0;   // that the block has now
  bool dropped = false;  // it came too late for the consistency mode

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("block", m.block);
    v("first", m.first);
    v("last", m.last);
    v("version", m.version);
    v("dropped", m.dropped);
  }
  bool operator==(const Absorbed&) const = default;
};

}  // namespace dtrain::wire
