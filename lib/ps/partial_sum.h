// The sums that a shard server holds of one chunk of one step, until they are what the step's version is made of: its
// root. Two kinds: along the tree (ChunkSum), or of the first that come (ArrivalSum). Not thread-safe.
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

class PartialSum {
 public:
  virtual ~PartialSum() = default;

  bool complete() const { return complete_; }
  // Whether it holds this node, or needs it no more.
  virtual bool covers(const Node& node) const = 0;
  // Everything of [0, prefix) is there, as far as order matters.
  virtual uint32_t prefix() const = 0;
  // The largest number of sums that can lie here at the same time, once the nodes in `promised` may arrive in any order
  // or not at all. The root needs none.
  virtual uint32_t need(std::span<const Node> promised) const = 0;

  // Takes in a node that is not covered; `values` are copied or added. Once the root is complete, returns it: in
  // `values`, in `root` where that is given, or in a sum of the pool that lies here until free().
  virtual const float* add(const Node& node, std::span<const float> values, SumPool& pool, float* root) = 0;
  // Gives the memory back; what it covers stays known.
  virtual void free(SumPool& pool) = 0;
  // Forgets everything: a new step.
  virtual void reset(SumPool& pool) = 0;

 protected:
  bool complete_ = false;
};

}  // namespace dtrain::ps
