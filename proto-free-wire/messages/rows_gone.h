// The version of the rows that were pulled is older than what the server keeps.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct RowsGone {
  static constexpr MessageType kType = MessageType::kRowsGone;

  uint64_t round = 0;
  int64_t version = 0;
  int64_t newest = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("round", m.round);
    v("version", m.version);
    v("newest", m.newest);
  }
  bool operator==(const RowsGone&) const = default;
};

}  // namespace dtrain::wire
