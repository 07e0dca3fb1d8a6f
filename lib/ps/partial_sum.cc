#include "ps/partial_sum.h"

#include <algorithm>
#include <utility>

namespace dtrain::ps {

Buffer SumPool::acquire(size_t elements) {
  lent_ += elements * sizeof(float);
  most_ = std::max(most_, lent_);
  if (counts_only_) return Buffer(sizeof(float));
  if (elements == static_cast<size_t>(kChunkElements) && !free_.empty()) {
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  return Buffer(elements * sizeof(float));
}

void SumPool::release(Buffer buffer, size_t elements) {
  lent_ -= elements * sizeof(float);
  if (buffer.size() == kChunkElements * sizeof(float)) free_.push_back(std::move(buffer));
}

}  // namespace dtrain::ps
