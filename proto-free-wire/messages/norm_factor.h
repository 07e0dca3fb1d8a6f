// What the coordinator made of all NormPartials of a round of a step: the factor that every gradient is multiplied with
// (after the division by K), and where the optimizer asked for them what it made of each parameter's norms.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct NormFactor {
  static constexpr MessageType kType = MessageType::kNormFactor;

  int64_t step = 0;
  uint32_t round = 0;
  double factor = 1.0;
  std::vector<double> ratios;  // by parameter; or none

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("round", m.round);
    v("factor", m.factor);
    v("ratios", m.ratios);
  }
  bool operator==(const NormFactor&) const = default;
};

}  // namespace dtrain::wire
