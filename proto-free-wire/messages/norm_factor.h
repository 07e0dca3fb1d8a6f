// What the coordinator made of all NormPartials of a step: the factor that every gradient is multiplied with (after the
// division by K).
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct NormFactor {
  static constexpr MessageType kType = MessageType::kNormFactor;

  int64_t step = 0;
  double factor = 1.0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("factor", m.factor);
  }
  bool operator==(const NormFactor&) const = default;
};

}  // namespace dtrain::wire
