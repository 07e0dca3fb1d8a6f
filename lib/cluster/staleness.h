// How far behind the parameters were from which gradients were computed, in versions (or, without lockstep, pushes).
// Counts by lag, so that its memory does not grow with the run. One thread.
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::cluster {

struct StalenessReport {
  double mean = 0.0;
  uint64_t p99 = 0;  // 99 of 100 pushes are behind by at most this; at most Staleness::kMost
  uint64_t pushes = 0, dropped = 0;
};

class Staleness {
 public:
  static constexpr uint32_t kMost = 4095;  // larger lags count as this one in p99

  void add(uint32_t lag, bool dropped) {
    ++counts_[lag < kMost ? lag : kMost];
    sum_ += lag;
    ++report_.pushes;
    report_.dropped += dropped;
  }
  void add_dropped() { ++report_.dropped; }
  StalenessReport report() const {
    StalenessReport out = report_;
    if (out.pushes == 0) return out;
    out.mean = static_cast<double>(sum_) / static_cast<double>(out.pushes);
    uint64_t seen = 0;
    while (seen + counts_[out.p99] < (out.pushes * 99 + 99) / 100) seen += counts_[out.p99++];
    return out;
  }

 private:
  std::array<uint64_t, kMost + 1> counts_{};
  uint64_t sum_ = 0;
  StalenessReport report_;
};

}  // namespace dtrain::cluster
