// The rows of one part of a pull, in its order; the payload is their fp32 values.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Rows {
  static constexpr MessageType kType = MessageType::kRows;

  uint64_t round = 0;
  uint32_t part = 0;
  int64_t version = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("round", m.round);
    v("part", m.part);
    v("version", m.version);
  }
  bool operator==(const Rows&) const = default;
};

}  // namespace dtrain::wire
