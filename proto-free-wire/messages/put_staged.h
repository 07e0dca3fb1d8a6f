// A shard server has all of the new values that concern it, and keeps them until it is told what to do with them.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct PutStaged {
  static constexpr MessageType kType = MessageType::kPutStaged;

  uint64_t put = 0;
  uint32_t tensor = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("tensor", m.tensor);
  }
  bool operator==(const PutStaged&) const = default;
};

}  // namespace dtrain::wire
