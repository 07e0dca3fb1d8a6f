// A piece of a tensor that a guest reads; the payload is its fp32 values from element `first` on.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct TensorChunk {
  static constexpr MessageType kType = MessageType::kTensorChunk;

  uint32_t request = 0;
  uint32_t tensor = 0;
  int64_t version = 0;
  int64_t first = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("tensor", m.tensor);
    v("version", m.version);
    v("first", m.first);
  }
  bool operator==(const TensorChunk&) const = default;
};

}  // namespace dtrain::wire
