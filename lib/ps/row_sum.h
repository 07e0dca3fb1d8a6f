// Sums of gradients of rows along the tree over [0, K): what ChunkSum is for chunks. A row that is not in a part of the
// sum adds nothing there, so that the bits follow from which micro-batches used which rows, and from nothing else. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/row_space.h"
#include "ps/tree.h"

namespace dtrain::ps {

// The rows of both; of a row that is in both: a + b.
RowList add(const RowSpace& space, const RowList& a, const RowList& b);

class RowSum {
 public:
  // The space outlives it.
  RowSum(const RowSpace& space, uint32_t micro_batches) : space_(space), micro_batches_(micro_batches) {}

  bool covers(uint32_t micro_batch) const;
  // Takes in a micro-batch that is not covered.
  void add(uint32_t micro_batch, RowList rows);
  bool complete() const { return held_.size() == 1 && held_.front().node.size() == micro_batches_; }
  // The sum of all. REQUIRES complete().
  RowList take_root();
  void reset() { held_.clear(); }

 private:
  struct Held {
    Node node;
    RowList sum;
  };
  const RowSpace& space_;
  const uint32_t micro_batches_;
  std::vector<Held> held_;  // disjoint, no two of them siblings
};

}  // namespace dtrain::ps
