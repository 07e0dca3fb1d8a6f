// What a worker's compute thread has done so far, for whoever watches. Written by that thread, read by the loop.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace dtrain::node {

struct WorkerMeter {
  std::atomic<int64_t> step{-1};           // under way, or the last one
  std::atomic<int64_t> samples{0};         // of training
  std::atomic<Nanoseconds> waited{0};      // for work and for parameters, but for the wait that goes on
  std::atomic<Instant> waiting_since{-1};  // or −1

  Nanoseconds waited_until(Instant now) const {
    const Instant since = waiting_since.load();
    return waited.load() + (since < 0 ? 0 : now - since);
  }
};

// Counts its own life as time that the worker waits.
class WaitCounted {
 public:
  WaitCounted(WorkerMeter& meter, const Clock& clock) : meter_(meter), clock_(clock), since_(clock.now()) {
    meter_.waiting_since = since_;
  }
  ~WaitCounted() {
    meter_.waiting_since = -1;
    meter_.waited += clock_.now() - since_;
  }
  WaitCounted(const WaitCounted&) = delete;
  WaitCounted& operator=(const WaitCounted&) = delete;

 private:
  WorkerMeter& meter_;
  const Clock& clock_;
  const Instant since_;
};

}  // namespace dtrain::node
