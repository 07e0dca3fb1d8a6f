// One of the dot products that a server was asked for: its part in each of its trainable chunks, in the order of the
// block table.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct VectorDots {
  static constexpr MessageType kType = MessageType::kVectorDots;

  int64_t step = 0;
  uint32_t round = 0;  // orders that the server has had in this step
  uint32_t dot = 0;    // which of those asked for
  std::vector<double> sums;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("round", m.round);
    v("dot", m.dot);
    v("sums", m.sums);
  }
  bool operator==(const VectorDots&) const = default;
};

}  // namespace dtrain::wire
