// All servers have taken the worker's sums over the micro-batches [first, last) of `step`: so the coordinator knows who
// is late.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct WorkDone {
  static constexpr MessageType kType = MessageType::kWorkDone;

  int64_t step = 0;
  uint32_t first = 0, last = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("first", m.first);
    v("last", m.last);
  }
  bool operator==(const WorkDone&) const = default;
};

}  // namespace dtrain::wire
