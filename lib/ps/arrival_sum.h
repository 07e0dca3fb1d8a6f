// The sum of the first pushes that come, in the order of their coming, each micro-batch once. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/partial_sum.h"

namespace dtrain::ps {

class ArrivalSum final : public PartialSum {
 public:
  // REQUIRES needed > 0.
  explicit ArrivalSum(uint32_t needed) : needed_(needed) {}

  bool covers(const Node& node) const override;
  uint32_t prefix() const override { return UINT32_MAX; }  // whoever comes
  uint32_t need(uint32_t promised) const override {
    return complete_ || needed_ == 1 || in_reserve_ || (sum_.size() == 0 && promised == 0) ? 0 : 1;
  }
  bool joins(const Node&) const override { return needed_ == 1 || sum_.size() > 0; }
  const float* add(const Node& node, const ChunkValues& values, SumPool& pool, float* root, bool in_reserve) override;
  void free(SumPool& pool, size_t elements) override;
  void reset(SumPool& pool, size_t elements) override;

 private:
  const uint32_t needed_;
  std::vector<uint32_t> added_;  // micro-batches
  Buffer sum_;
  bool in_reserve_ = false;
};

}  // namespace dtrain::ps
