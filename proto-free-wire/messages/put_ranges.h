// Which elements of the tensor this shard server holds, and wants as PutChunks: first, count, first, count, …
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct PutRanges {
  static constexpr MessageType kType = MessageType::kPutRanges;

  uint64_t put = 0;
  std::vector<int64_t> ranges;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("ranges", m.ranges);
  }
  bool operator==(const PutRanges&) const = default;
};

}  // namespace dtrain::wire
