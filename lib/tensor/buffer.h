// A block of memory aligned for vector loads and cache lines. Movable, owning, zeroed on request; the base of all
// tensor storage. From the heap, or where it is asked for and to be had from memory that other processes may read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "tensor/shared_memory.h"

namespace dtrain {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;
  // Not initialised; `bytes` may be 0.
  explicit Buffer(size_t bytes) : Buffer(bytes, nullptr) {}
  // In `memory` where that is not null, the buffer not small and there is room.
  Buffer(size_t bytes, const std::shared_ptr<SharedMemory>& memory);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  void zero();
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }

 private:
  void free();

  std::shared_ptr<SharedMemory> memory_;  // null: the heap
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dtrain
