// Sums along the tree over [0, K): disjoint nodes, no two of them siblings, growing towards the root. A node that meets
// its sibling needs no memory; neither does the root. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/partial_sum.h"

namespace dtrain::ps {

class ChunkSum final : public PartialSum {
 public:
  explicit ChunkSum(uint32_t micro_batches) : micro_batches_(micro_batches) {}

  // Whether it holds this node or an ancestor.
  bool covers(const Node& node) const override;
  uint32_t prefix() const override;
  uint32_t need(std::span<const Node> promised) const override;
  const float* add(const Node& node, std::span<const float> values, SumPool& pool, float* root) override;
  void free(SumPool& pool) override;
  void reset(SumPool& pool) override;

 private:
  struct Held {
    Node node;
    Buffer sum;
  };
  const uint32_t micro_batches_;
  std::vector<Held> held_;  // by first
};

}  // namespace dtrain::ps
