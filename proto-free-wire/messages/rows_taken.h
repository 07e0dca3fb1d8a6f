// A server has all parts of a micro-batch's rows, or needs them no more.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct RowsTaken {
  static constexpr MessageType kType = MessageType::kRowsTaken;

  int64_t step = 0;
  uint32_t micro_batch = 0;
  int64_t version = 0;  // that the rows have now

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("micro_batch", m.micro_batch);
    v("version", m.version);
  }
  bool operator==(const RowsTaken&) const = default;
};

}  // namespace dtrain::wire
