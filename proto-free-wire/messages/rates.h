// The coordinator lets a server commit the steps from `from` on, one for each rate, and says their learning rates
// (computed in one place, since libm may differ between hosts).
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Rates {
  static constexpr MessageType kType = MessageType::kRates;

  int64_t from = 0;
  std::vector<double> rates;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("from", m.from);
    v("rates", m.rates);
  }
  bool operator==(const Rates&) const = default;
};

}  // namespace dtrain::wire
