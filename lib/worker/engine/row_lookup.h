// What a micro-batch uses of sparse tables: the rows that its tokens name, each once, and the tokens as numbers of
// these in small tables of nothing else; with the memory of those tables and of their gradients. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/network.h"
#include "ps/row_space.h"
#include "tensor/buffer.h"

namespace dtrain::worker {

class RowLookup {
 public:
  // For micro-batches of so many samples. Network and space, which is of its parameters, outlive it. `gradients`: with
  // memory for them.
  RowLookup(const graph::Network& network, const ps::RowSpace& space, int64_t samples, bool gradients);

  bool empty() const { return space_.empty(); }
  // Of samples as the network takes them, the first `valid`; what is behind them uses nothing of its own. Errors
  // (kData): a token that is no row of its table.
  Status find(const void* samples, int64_t valid);
  // What find() found, ascending, over all tables.
  const std::vector<uint64_t>& rows() const { return rows_; }
  // For graph::Feed.
  std::span<const int32_t* const> lookups() const { return lookups_; }

  // Of each table of the space: [Network::rows_used(), width], the rows one behind the other.
  std::span<float* const> values() const { return values_; }
  std::span<float* const> gradients() const { return gradients_; }
  // What all of it takes.
  static size_t bytes(const graph::Network& network, int64_t samples, bool gradients);

 private:
  Status tokens_of(const graph::TableLookup& lookup, const void* samples, int64_t valid,
                   std::vector<int64_t>& out) const;

  const graph::Network& network_;
  const ps::RowSpace& space_;
  const int64_t samples_;
  Buffer memory_;
  std::vector<float*> values_, gradients_;
  std::vector<uint64_t> rows_;
  std::vector<std::vector<int64_t>> tokens_;  // of each lookup
  std::vector<std::vector<int32_t>> places_;  // of each lookup: what lookups_ points to
  std::vector<const int32_t*> lookups_;
};

}  // namespace dtrain::worker
