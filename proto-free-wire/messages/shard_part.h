// A piece of a shard file, from a server that does not see the coordinator's disk: sent in order, instead of
// SnapshotDone, which the coordinator makes of it when the file is whole. The payload is bytes offset … of `total`.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct ShardPart {
  static constexpr MessageType kType = MessageType::kShardPart;

  int64_t version = 0;
  uint64_t offset = 0, total = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("version", m.version);
    v("offset", m.offset);
    v("total", m.total);
  }
  bool operator==(const ShardPart&) const = default;
};

}  // namespace dtrain::wire
