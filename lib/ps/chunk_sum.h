// Sums along the tree over [0, K): disjoint nodes, no two of them siblings, growing towards the root. A node that meets
// its sibling needs no memory; neither does the root. Nodes are found by bisection: thousands may lie here. Not
// thread-safe.
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
  bool covers(const Node& node) const override { return complete_ || find_holder(node) != nullptr; }
  // The node that is held over this ground, `node` itself or an ancestor. REQUIRES covers(node) and !complete().
  Node holder(const Node& node) const;
  uint32_t prefix() const override;
  uint32_t need(uint32_t promised) const override { return complete_ ? 0 : counted_ + promised; }
  bool joins(const Node& node) const override;
  const float* add(const Node& node, const ChunkValues& values, SumPool& pool, float* root, bool in_reserve) override;
  void free(SumPool& pool, size_t elements) override;
  void reset(SumPool& pool, size_t elements) override;

 private:
  struct Held {
    Node node;
    Buffer sum;
    bool in_reserve = false;
  };
  using Place = std::vector<Held>::iterator;

  bool holds(const Node& node) const;
  const Held* find_holder(const Node& node) const;
  // The first that begins at `first` or behind.
  Place at(uint32_t first);
  std::vector<Held>::const_iterator at(uint32_t first) const { return const_cast<ChunkSum*>(this)->at(first); }
  void erase(Place first, Place last);

  const uint32_t micro_batches_;
  std::vector<Held> held_;  // by first
  uint32_t counted_ = 0;    // that do not lie in the reserve
};

}  // namespace dtrain::ps
