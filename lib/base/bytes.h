// Little-endian loads and stores, and the span types in which bytes travel.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace dtrain {

static_assert(std::endian::native == std::endian::little, "tensors travel and lie on disk as little-endian");

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

template <typename T>
T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void store_le(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
ByteSpan as_byte_span(std::span<T> values) {
  return std::as_bytes(values);
}

}  // namespace dtrain
