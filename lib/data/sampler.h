// Which sample stands at which place of the run: global sample number g = step · batch + i is perm(seed, ⌊g / N⌋)[g mod
// N], so that batches are always full and run across an epoch's end, and there is no state to save. A permutation is
// drawn by Fisher and Yates' method from Philox keyed with seed and epoch. Thread-safe; keeps the permutations of two
// epochs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace dtrain::data {

// The order of epoch `epoch` over n samples.
std::vector<int64_t> shuffled_order(uint64_t seed, int64_t epoch, int64_t n);

class Sampler {
 public:
  // n ≥ 1. Without `shuffle` every epoch has the file's order.
  Sampler(int64_t n, uint64_t seed, bool shuffle) : n_(n), seed_(seed), shuffle_(shuffle) {}

  int64_t size() const { return n_; }
  uint64_t seed() const { return seed_; }
  // The indices of samples first, first + 1, … of the run; first ≥ 0.
  void indices(int64_t first, std::span<int64_t> into) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order(int64_t epoch) const;

  int64_t n_;
  uint64_t seed_;
  bool shuffle_;
  struct Cached {
    int64_t epoch = -1;
    Order order;
  };
  mutable std::mutex mutex_;
  mutable std::array<Cached, 2> cache_;  // the last used first; under mutex_
};

}  // namespace dtrain::data
