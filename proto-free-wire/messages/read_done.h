// What a Read has come to. Where the version is no longer kept, or the step is over, no elements are sent.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct ReadDone {
  static constexpr MessageType kType = MessageType::kReadDone;

  uint32_t request = 0;
  bool gone = false;
  int64_t elements = 0;  // that were sent; they may come after this
  int64_t version = 0;   // that was asked for
  int64_t newest = 0;    // of this server

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("gone", m.gone);
    v("elements", m.elements);
    v("version", m.version);
    v("newest", m.newest);
  }
  bool operator==(const ReadDone&) const = default;
};

}  // namespace dtrain::wire
