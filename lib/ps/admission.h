// Which offered nodes a shard server may take, so that partial sums never need more memory than the pool has and yet
// some block can always be finished. Accounts in bytes; allocates nothing. Blocks whose nodes are pushed are
// not counted. Not thread-safe.
//
// Part of the pool, enough for one block's partial sums, is a reserve for the first unfinished block. What is taken on
// it is taken from left to right: it begins where the prefix [0, p) of what is there ends, or before, so that it joins
// the prefix when it comes, and the sums over a prefix are at most ⌈log₂ K⌉, whatever was offered; and the next node is
// always one that the run needs. The rest serves whoever comes: each node that is under way or held counts as one sum.
// A node whose sibling is held, or the root, needs no further one and is always taken.
//
// Where a step's pushes are summed in the order of their coming a block has one sum, whoever pushes. There the pool has
// room for that of every block: all is taken at once, and a worker that makes one push after the other never waits for
// a block that waits for its next one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ps/block_table.h"
#include "ps/tree.h"

namespace dtrain::ps {

class Admission {
 public:
  // `along_tree`: of a step's nodes; else of its pushes as they come.
  Admission(const BlockTable& table, uint32_t server, uint32_t micro_batches, size_t pool_bytes, bool along_tree = true)
      : reserve_(along_tree ? smallest_pool(table, server, micro_batches, true) : 0),
        pool_(std::max(pool_bytes, smallest_pool(table, server, micro_batches, along_tree))) {}

  // Without this much nothing can be promised to end; a smaller pool is made as large.
  static size_t smallest_pool(const BlockTable& table, uint32_t server, uint32_t micro_batches,
                              bool along_tree = true) {
    int64_t largest = 0, all = 0;  // elements
    for (uint32_t id : table.of_server(server)) {
      const Block& block = table.block(id);
      if (block.frozen() || block.pushed()) continue;
      largest = std::max(largest, block.elements);
      all += block.elements;
    }
    return sizeof(float) * static_cast<size_t>(along_tree ? largest * fold_depth(micro_batches) : all);
  }

  // Whether there is room for so much more outside the reserve.
  bool admits(size_t more_bytes) const { return used_ + more_bytes + reserve_ <= pool_; }
  void set_used(size_t before, size_t after) { used_ = used_ - before + after; }
  size_t used() const { return used_; }  // outside the reserve
  size_t pool() const { return pool_; }

 private:
  size_t reserve_, pool_;
  size_t used_ = 0;
};

}  // namespace dtrain::ps
