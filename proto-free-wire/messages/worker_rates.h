// The learning rates of the steps from `from` on, for workers that take steps of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct WorkerRates {
  static constexpr MessageType kType = MessageType::kWorkerRates;

  int64_t from = 0;
  std::vector<double> rates;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("from", m.from);
    v("rates", m.rates);
  }
  bool operator==(const WorkerRates&) const = default;
};

}  // namespace dtrain::wire
