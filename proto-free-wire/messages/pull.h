// A worker asks for a block at a version. Answered with ParameterChunks at once, or when that version is committed;
// with Gone where it is no longer kept.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Pull {
  static constexpr MessageType kType = MessageType::kPull;

  uint32_t block = 0;
  int64_t version = 0;
  int64_t held = -1;  // a version that all of it is there of: what follows may be told as what changes; -1: none

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("block", m.block);
    v("version", m.version);
    v("held", m.held);
  }
  bool operator==(const Pull&) const = default;
};

}  // namespace dtrain::wire
