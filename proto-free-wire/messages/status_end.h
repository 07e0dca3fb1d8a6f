// The last of the rows, and where the run stands.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct StatusEnd {
  static constexpr MessageType kType = MessageType::kStatusEnd;

  uint32_t request = 0;
  int64_t step = 0;   // complete on all servers
  int64_t steps = 0;  // of the whole run
  std::string phase;  // "training"

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("step", m.step);
    v("steps", m.steps);
    v("phase", m.phase);
  }
  bool operator==(const StatusEnd&) const = default;
};

}  // namespace dtrain::wire
