// What run a task belongs to. So many TaskPlaces and NamedTensors follow.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct RunInfo {
  static constexpr MessageType kType = MessageType::kRunInfo;

  std::string name;   // of the run
  uint32_t rank = 0;  // of the task that answers
  uint32_t tasks = 0;
  uint32_t tensors = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("name", m.name);
    v("rank", m.rank);
    v("tasks", m.tasks);
    v("tensors", m.tensors);
  }
  bool operator==(const RunInfo&) const = default;
};

}  // namespace dtrain::wire
