// A guest wants to replace a tensor: said to the coordinator, which decides when, and to the shard servers, which
// answer with PutRanges and take the new values. PutDone says how it ended.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Put {
  static constexpr MessageType kType = MessageType::kPut;

  uint64_t put = 0;  // random; names this wish
  uint32_t tensor = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("tensor", m.tensor);
  }
  bool operator==(const Put&) const = default;
};

}  // namespace dtrain::wire
