#include "ps/arrival_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {

bool ArrivalSum::covers(const Node& node) const {
  return complete_ || std::find(added_.begin(), added_.end(), node.first) != added_.end();
}

uint32_t ArrivalSum::need(std::span<const Node> promised) const {
  if (complete_ || needed_ == 1) return 0;
  return added_.empty() && promised.empty() ? 0 : 1;
}

const float* ArrivalSum::add(const Node& node, std::span<const float> values, SumPool& pool, float* root) {
  DTRAIN_CHECK(!covers(node) && node.size() == 1);
  const size_t n = values.size();
  added_.push_back(node.first);
  complete_ = added_.size() == needed_;
  if (needed_ == 1) {
    if (!root) return values.data();
    std::memcpy(root, values.data(), n * sizeof(float));
    return root;
  }
  if (sum_.size() == 0) {
    sum_ = pool.acquire(n);
    std::memcpy(sum_.data(), values.data(), n * sizeof(float));
    return nullptr;
  }
  const std::span<float> sum = sum_.as<float>().first(n);
  if (!complete_) {
    ps::add(sum, values);
    return nullptr;
  }
  if (!root) {
    ps::add(sum, values);
    return sum.data();
  }
  ps::add({root, n}, sum, values);
  free(pool);
  return root;
}

void ArrivalSum::free(SumPool& pool) {
  if (sum_.size() > 0) pool.release(std::move(sum_));
  sum_ = Buffer();
}

void ArrivalSum::reset(SumPool& pool) {
  free(pool);
  added_.clear();
  complete_ = false;
}

}  // namespace dtrain::ps
