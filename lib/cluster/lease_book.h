// Asynchronous training's share of work: the run's micro-batches are numbered, step · K + k, and handed out one lease
// after the other to whoever asks, so that each is computed once, by fast workers more of them. What a lost worker had
// goes to others. A pure book; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "proto-free-wire/message.h"

namespace dtrain::cluster {

struct Lease {
  int64_t first = 0, last = 0;  // micro-batches [first, last)
  auto operator<=>(const Lease&) const = default;
};

class LeaseBook {
 public:
  // `each`: micro-batches of one lease.
  LeaseBook(int64_t first, int64_t each) : next_(first), end_(first), each_(each) {}

  // So far leases may go from now on.
  void extend(int64_t end) { end_ = end; }
  // The next one for this worker; nothing where all are out.
  std::optional<Lease> lease(wire::Rank worker);
  // The worker is done with micro-batch number g. False: it has no such lease.
  bool done(wire::Rank worker, int64_t g);
  // What the worker had goes back.
  void lost(wire::Rank worker);

  // Leases that a worker has.
  size_t held(wire::Rank worker) const;
  // All up to the end are done.
  bool complete() const { return next_ >= end_ && returned_.empty() && open_.empty(); }
  // The first micro-batch that was never leased.
  int64_t next() const { return next_; }

 private:
  int64_t next_, end_;
  const int64_t each_;
  std::map<wire::Rank, std::set<Lease>> open_;  // what is not done of each
  std::set<Lease> returned_;
};

}  // namespace dtrain::cluster
