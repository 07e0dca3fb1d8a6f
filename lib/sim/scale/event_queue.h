// What happens next: events in the order of their times, those of one time in the order of their coming. A radix heap:
// times never go back, so that an event is moved at most as often as its time has bits, and usually twice. One thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace dtrain::sim::scale {

struct Event {
  enum class Kind : uint32_t { kArrive, kSend, kTurn, kCompute };
  Instant at = 0;
  Kind kind = Kind::kTurn;
  uint32_t host = 0;
  uint32_t data = 0;  // of kArrive a frame
};

class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // REQUIRES a time that is not before that of the last pop().
  void push(const Event& event) {
    DTRAIN_CHECK(event.at >= last_, "an event of the past");
    buckets_[bucket(event.at)].push_back(event);
    ++size_;
  }

  // REQUIRES !empty().
  Event pop() {
    if (next_ == buckets_[0].size()) refill();
    --size_;
    return buckets_[0][next_++];
  }

 private:
  // By the highest bit in which a time differs from the last one.
  size_t bucket(Instant at) const { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(at ^ last_))); }

  void refill() {
    buckets_[0].clear();
    next_ = 0;
    size_t i = 1;
    while (buckets_[i].empty()) ++i;
    last_ = buckets_[i].front().at;
    for (const Event& e : buckets_[i])
      if (e.at < last_) last_ = e.at;
    for (const Event& e : buckets_[i]) buckets_[bucket(e.at)].push_back(e);
    buckets_[i].clear();
  }

  std::array<std::vector<Event>, 65> buckets_;
  size_t next_ = 0;  // in the first bucket, whose events are all of last_
  Instant last_ = 0;
  size_t size_ = 0;
};

}  // namespace dtrain::sim::scale
