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
  uint32_t need(std::span<const Node> promised) const override;
  const float* add(const Node& node, std::span<const float> values, SumPool& pool, float* root) override;
  void free(SumPool& pool) override;
  void reset(SumPool& pool) override;

 private:
  const uint32_t needed_;
  std::vector<uint32_t> added_;  // micro-batches
  Buffer sum_;
};

}  // namespace dtrain::ps
