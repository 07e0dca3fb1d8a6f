// Which workers are so late that others should compute their share as well: as MapReduce's backup tasks (Dean and
// Ghemawat 2004), but for one step. Since a share is a function of the step, whoever is first counts, and the bits are
// the same. A pure policy under the caller's clock; one thread.
//
// A worker is suspected when it is not done with its share after the factor times the median of what shares take, while
// others are idle. It stays suspected until it has been in time often enough: so a slow host costs one late step, not
// one in each.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/clock.h"
#include "proto-free-wire/message.h"

namespace dtrain::cluster {

class Stragglers {
 public:
  static constexpr double kFactor = 2.0;
  static constexpr Nanoseconds kSlack = 20 * kMillisecond;  // what scheduling and timers may cost any worker
  static constexpr int kInTime = 8;                         // steps in a row that clear a suspect

  // Step `step` can begin: the one before is complete.
  void opened(int64_t step, Instant now);
  // So many micro-batches of its share of `step` have been taken by all servers. Of any step, in any order.
  void done(wire::Rank worker, int64_t step, uint32_t micro_batches, Instant now);
  // Who of `shares` (micro-batches of each worker) is late now and was not suspected: they are from now on.
  std::vector<wire::Rank> find_late(const std::map<wire::Rank, uint32_t>& shares, Instant now);
  // The step is complete. Whether suspects are suspects no more.
  bool closed(const std::map<wire::Rank, uint32_t>& shares);
  void forget(wire::Rank worker);

  bool suspected(wire::Rank worker) const { return suspects_.contains(worker); }
  bool any() const { return !suspects_.empty(); }

 private:
  bool complete(wire::Rank worker, uint32_t share) const;

  static constexpr size_t kRemembered = 63;  // durations
  int64_t step_ = -1;
  Instant opened_at_ = 0;
  std::map<int64_t, std::map<wire::Rank, uint32_t>> done_;  // micro-batches, by step
  std::map<wire::Rank, int> suspects_;                      // steps in a row that each was in time
  std::deque<Nanoseconds> took_;                            // by those who are not suspected
};

}  // namespace dtrain::cluster
