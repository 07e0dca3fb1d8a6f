// The version that was pulled is older than what the server keeps.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Gone {
  static constexpr MessageType kType = MessageType::kGone;

  uint32_t block = 0;
  int64_t version = 0;
  int64_t newest = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("block", m.block);
    v("version", m.version);
    v("newest", m.newest);
  }
  bool operator==(const Gone&) const = default;
};

}  // namespace dtrain::wire
