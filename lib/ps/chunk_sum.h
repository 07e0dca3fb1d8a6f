// The partial sums that a shard server holds for one chunk of one step: disjoint nodes of the tree, no two of them
// siblings, growing towards the root. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/block_table.h"
#include "ps/tree.h"
#include "tensor/buffer.h"

namespace dtrain::ps {

// Memory of partial sums, kept for the next ones once it was given back. The bound is kept by who asks.
class SumPool {
 public:
  Buffer acquire(size_t elements);
  void release(Buffer buffer);

 private:
  std::vector<Buffer> free_;  // of whole chunks; smaller ones are not worth keeping
};

class ChunkSum {
 public:
  bool complete() const { return complete_; }
  // Whether it holds this node or an ancestor.
  bool covers(const Node& node) const;
  // Everything of [0, prefix) is there.
  uint32_t prefix() const;
  // The largest number of partial sums that can lie here at the same time, once the nodes in `promised` may arrive in
  // any order or not at all. A node that meets its sibling needs none; neither does the root.
  uint32_t need(std::span<const Node> promised, uint32_t micro_batches) const;

  // Takes in a node that is not covered; `values` are copied or added. Once the root is complete, returns it: in
  // `values`, in `root` where that is given, or in a partial sum of the pool that lies here until clear().
  const float* add(const Node& node, std::span<const float> values, uint32_t micro_batches, SumPool& pool, float* root);
  // Gives the memory back; what it covers stays known.
  void free(SumPool& pool);
  // Forgets everything: a new step.
  void reset(SumPool& pool);

 private:
  struct Held {
    Node node;
    Buffer sum;
  };
  std::vector<Held> held_;  // by first
  bool complete_ = false;
};

}  // namespace dtrain::ps
