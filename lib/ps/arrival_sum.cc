#include "ps/arrival_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {

bool ArrivalSum::covers(const Node& node) const {
  return complete_ || std::find(added_.begin(), added_.end(), node.first) != added_.end();
}

const float* ArrivalSum::add(const Node& node, const ChunkValues& values, SumPool& pool, float* root, bool in_reserve) {
  DTRAIN_CHECK(!covers(node) && node.size() == 1);
  const size_t n = values.size();
  const bool sums = !pool.counts_only();
  added_.push_back(node.first);
  complete_ = added_.size() == needed_;
  in_reserve_ |= in_reserve;
  if (needed_ == 1 && (root || values.plain())) {
    if (!root) return values.plain();
    if (sums) values.copy_to(root);
    return root;
  }
  if (sum_.size() == 0) {
    sum_ = pool.acquire(n);
    if (sums) values.copy_to(sum_.as<float>().data());
    return complete_ ? sum_.as<float>().data() : nullptr;
  }
  float* const sum = sum_.as<float>().data();
  if (!complete_ || !root) {
    if (sums) values.add_to(sum);
    return complete_ ? sum : nullptr;
  }
  if (sums) values.sum_to(root, sum);
  free(pool, n);
  return root;
}

void ArrivalSum::free(SumPool& pool, size_t elements) {
  if (sum_.size() > 0) pool.release(std::move(sum_), elements);
  sum_ = Buffer();
}

void ArrivalSum::reset(SumPool& pool, size_t elements) {
  free(pool, elements);
  added_.clear();
  complete_ = in_reserve_ = false;
}

}  // namespace dtrain::ps
