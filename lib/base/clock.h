// Time as the state machines see it: monotonic nanoseconds handed in from outside. Nothing below node/ reads a clock.
#pragma once

#include <cstdint>

namespace dtrain {

using Nanoseconds = int64_t;
// A point on some monotonic clock; only differences mean anything.
using Instant = int64_t;

constexpr Nanoseconds kMicrosecond = 1'000;
constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1'000'000'000;

// Implementations: the steady clock of a process, a clock that a test or simulation advances by hand.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Instant now() const override;
};

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Nanoseconds by) { now_ += by; }
  void set(Instant at) { now_ = at; }

 private:
  Instant now_ = 0;
};

}  // namespace dtrain
