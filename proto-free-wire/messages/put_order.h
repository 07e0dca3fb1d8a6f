// All shard servers have their part: the tensor gets its new values as `version`, which no server can have committed,
// for the rate that leads there is sent after this. −1: forget them.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct PutOrder {
  static constexpr MessageType kType = MessageType::kPutOrder;

  uint64_t put = 0;
  int64_t version = -1;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("version", m.version);
  }
  bool operator==(const PutOrder&) const = default;
};

}  // namespace dtrain::wire
