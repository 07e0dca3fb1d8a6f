// How a task is doing, about once a second. Rates are over the time since the last such message.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct TaskStatus {
  static constexpr MessageType kType = MessageType::kTaskStatus;

  int64_t step = -1;  // worked at, or held; −1: none yet
  double samples_per_s = 0;
  double waited = 0;  // seconds in which the worker had no parameters to compute with, of each second
  uint64_t sent = 0;  // bytes so far
  uint64_t received = 0;
  double sent_per_s = 0;  // bytes
  double received_per_s = 0;
  uint64_t queued = 0;    // bytes that wait to be sent
  uint64_t resident = 0;  // bytes of memory

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("samples_per_s", m.samples_per_s);
    v("waited", m.waited);
    v("sent", m.sent);
    v("received", m.received);
    v("sent_per_s", m.sent_per_s);
    v("received_per_s", m.received_per_s);
    v("queued", m.queued);
    v("resident", m.resident);
  }
  bool operator==(const TaskStatus&) const = default;
};

}  // namespace dtrain::wire
