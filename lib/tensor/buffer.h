// A block of memory aligned for vector loads and cache lines. Movable, owning, zeroed on request; the base of all
// tensor storage.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace dtrain {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;
  // Not initialised; `bytes` may be 0.
  explicit Buffer(size_t bytes);
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
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dtrain
