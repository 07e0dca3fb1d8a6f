// The version that all blocks of this server have, or had just before: it can be read at once. −1: none yet.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Standing {
  static constexpr MessageType kType = MessageType::kStanding;

  uint32_t request = 0;
  int64_t version = -1;
  uint32_t stride = 1;  // steps from one version to the next; 0: blocks have versions of their own

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("version", m.version);
    v("stride", m.stride);
  }
  bool operator==(const Standing&) const = default;
};

}  // namespace dtrain::wire
