// Turns a task's counters into what it says of itself about once a second. One thread.
#pragma once

#include <optional>

#include "base/clock.h"
#include "proto-free-wire/messages/task_status.h"

namespace dtrain::watch {

// Counted since the task began, but for what is now.
struct TaskCounters {
  int64_t step = -1;       // now
  int64_t samples = 0;     // that gradients were computed of
  Nanoseconds waited = 0;  // of the worker, for parameters or for work
  uint64_t sent = 0, received = 0;
  uint64_t queued = 0, resident = 0;  // now, bytes
};

class StatusMeter {
 public:
  static constexpr Nanoseconds kEvery = kSecond;

  bool due(Instant now) const { return !at_ || now - *at_ >= kEvery; }
  wire::TaskStatus measure(const TaskCounters& now_counted, Instant now) {
    const double seconds = at_ ? static_cast<double>(now - *at_) / kSecond : 0.0;
    auto per_second = [&](auto now_value, auto before) {
      return seconds > 0 ? static_cast<double>(now_value - before) / seconds : 0.0;
    };
    wire::TaskStatus s;
    s.step = now_counted.step;
    s.samples_per_s = per_second(now_counted.samples, before_.samples);
    s.waited = per_second(now_counted.waited, before_.waited) / kSecond;
    s.sent = now_counted.sent;
    s.received = now_counted.received;
    s.sent_per_s = per_second(now_counted.sent, before_.sent);
    s.received_per_s = per_second(now_counted.received, before_.received);
    s.queued = now_counted.queued;
    s.resident = now_counted.resident;
    before_ = now_counted;
    at_ = now;
    return s;
  }

 private:
  TaskCounters before_;
  std::optional<Instant> at_;
};

}  // namespace dtrain::watch
