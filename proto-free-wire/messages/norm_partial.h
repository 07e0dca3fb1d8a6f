// Sums of squares of what a server measures in a round of `step`: for each quantity in turn one for each of its chunks
// of trainable blocks, in the order of the block table. Of gradients: of the sums over micro-batches, before any
// division.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct NormPartial {
  static constexpr MessageType kType = MessageType::kNormPartial;

  int64_t step = 0;
  uint32_t round = 0;
  std::vector<double> squares;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("round", m.round);
    v("squares", m.squares);
  }
  bool operator==(const NormPartial&) const = default;
};

}  // namespace dtrain::wire
