#include "ps/partial_sum.h"

#include <utility>

namespace dtrain::ps {

Buffer SumPool::acquire(size_t elements) {
  if (elements == static_cast<size_t>(kChunkElements) && !free_.empty()) {
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  return Buffer(elements * sizeof(float));
}

void SumPool::release(Buffer buffer) {
  if (buffer.size() == kChunkElements * sizeof(float)) free_.push_back(std::move(buffer));
}

}  // namespace dtrain::ps
