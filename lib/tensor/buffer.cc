#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dtrain {

Buffer::Buffer(size_t bytes, const std::shared_ptr<SharedMemory>& memory) : size_(bytes) {
  if (bytes == 0) return;
  if (memory && bytes >= SharedMemory::kSmallest && (data_ = memory->allocate(bytes))) {
    memory_ = memory;
    return;
  }
  // Large buffers start at huge-page boundaries, and ask for huge pages: fewer TLB misses in streaming passes.
  constexpr size_t kHuge = 2u << 20;
  const size_t alignment = bytes >= 2 * kHuge ? kHuge : kAlignment;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) throw std::bad_alloc();  // as any other allocation; the program ends in one place
  if (alignment == kHuge) madvise(data_, rounded, MADV_HUGEPAGE);
}

Buffer::~Buffer() { free(); }

void Buffer::free() {
  if (memory_)
    memory_->release(data_, size_);
  else
    std::free(data_);
  memory_.reset();
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(std::move(other.memory_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    free();
    memory_ = std::move(other.memory_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Buffer::zero() {
  if (size_) std::memset(data_, 0, size_);
}

}  // namespace dtrain
