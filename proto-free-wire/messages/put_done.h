// The tensor has its new values since `version`, or why it has not.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct PutDone {
  static constexpr MessageType kType = MessageType::kPutDone;

  uint64_t put = 0;
  int64_t version = -1;
  std::string error;  // empty: done

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("put", m.put);
    v("version", m.version);
    v("error", m.error);
  }
  bool operator==(const PutDone&) const = default;
};

}  // namespace dtrain::wire
