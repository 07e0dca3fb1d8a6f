// What the coordinator last heard of a task.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"
#include "proto-free-wire/messages/task_status.h"

namespace dtrain::wire {

struct StatusRow {
  static constexpr MessageType kType = MessageType::kStatusRow;

  uint32_t request = 0;
  uint32_t rank = 0;
  double age = -1;  // seconds since it was heard; −1: never, or it is lost
  int64_t lag = -1;  // how many steps the run was ahead of it then; −1: it has none
  TaskStatus status;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("rank", m.rank);
    v("age", m.age);
    v("lag", m.lag);
    TaskStatus::fields(m.status, v);
  }
  bool operator==(const StatusRow&) const = default;
};

}  // namespace dtrain::wire
