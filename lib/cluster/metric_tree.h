// The metrics of one step, summed over its micro-batches along the tree of all sums, in fp64.
// Nodes may come in any order, twice, or as other nodes over the same ground: each micro-batch is counted once, and the
// sum is the same bits. One thread.
#pragma once

#include <cstdint>
#include <map>

#include "ps/tree.h"
#include "tensor/metrics.h"

namespace dtrain::cluster {

class MetricTree {
 public:
  explicit MetricTree(uint32_t micro_batches) : micro_batches_(micro_batches) {}

  // REQUIRES that `node` is one of the tree. False: its ground was covered already, and it is dropped.
  bool add(ps::Node node, Metrics metrics);
  // The sum over all micro-batches, once every one has come; null before.
  const Metrics* root() const;
  // Over those that have come.
  Metrics sum() const;
  uint32_t micro_batches() const;

 private:
  uint32_t micro_batches_;
  std::map<ps::Node, Metrics> held_;  // disjoint, no two siblings
};

}  // namespace dtrain::cluster
