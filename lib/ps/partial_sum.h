// The sums that a shard server holds of one chunk of one step, until they are what the step's version is made of: its
// root. Two kinds: along the tree (ChunkSum), or of the first that come (ArrivalSum). Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/block_table.h"
#include "ps/chunk_values.h"
#include "ps/tree.h"
#include "tensor/buffer.h"

namespace dtrain::ps {

// Memory of partial sums, kept for the next ones once it was given back. The bound is kept by who asks.
class SumPool {
 public:
  // `counts_only`: there are no values (ShardServerOptions), so that sums are hardly any memory, and never written.
  explicit SumPool(bool counts_only = false) : counts_only_(counts_only) {}

  Buffer acquire(size_t elements);
  void release(Buffer buffer, size_t elements);
  bool counts_only() const { return counts_only_; }
  size_t lent() const { return lent_; }       // bytes of sums that are out
  size_t most_lent() const { return most_; }  // at any time

 private:
  const bool counts_only_;
  std::vector<Buffer> free_;  // of whole chunks; smaller ones are not worth keeping
  size_t lent_ = 0, most_ = 0;
};

class PartialSum {
 public:
  virtual ~PartialSum() = default;

  bool complete() const { return complete_; }
  // Whether it holds this node, or needs it no more.
  virtual bool covers(const Node& node) const = 0;
  // Everything of [0, prefix) is there, as far as order matters.
  virtual uint32_t prefix() const = 0;
  // The largest number of sums outside the reserve (admission.h) that can lie here at the same time, once so many nodes
  // that do not join one may arrive in any order or not at all.
  virtual uint32_t need(uint32_t promised) const = 0;
  // Whether this node is added to what is there already, or is the root: it needs no sum of its own. Stays so until it
  // comes.
  virtual bool joins(const Node& node) const = 0;

  // Takes in a node that is not covered; `values` are copied or added. Once the root is complete, returns it: in
  // `values`, in `root` where that is given, or in a sum of the pool that lies here until free(). `in_reserve`: the sum
  // that it becomes part of needs no room outside the reserve.
  virtual const float* add(const Node& node, const ChunkValues& values, SumPool& pool, float* root,
                           bool in_reserve) = 0;
  // Gives the memory of sums of so many elements back; what it covers stays known.
  virtual void free(SumPool& pool, size_t elements) = 0;
  // Forgets everything: a new step.
  virtual void reset(SumPool& pool, size_t elements) = 0;

 protected:
  bool complete_ = false;
};

}  // namespace dtrain::ps
