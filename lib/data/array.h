// An n-dimensional array as a file holds it, in its own element type: the common form of what IDX and .npy files give.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/sha256.h"
#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace dtrain::data {

enum class ElementType { kU8, kI8, kU16, kI16, kI32, kI64, kF32, kF64 };

size_t size_of(ElementType type);
bool is_integer(ElementType type);

struct Array {
  ElementType type = ElementType::kU8;
  Shape shape;  // C order, at least one axis
  Buffer storage;
  size_t begin = 0;  // where the elements start in `storage`
  Digest digest{};   // of the file's bytes
  std::string path;  // of the file, for messages

  const std::byte* data() const { return storage.data() + begin; }
};

// The number of bytes, or nothing where it does not fit in 62 bits or an extent is negative.
std::optional<uint64_t> array_bytes(ElementType type, const Shape& shape);

// Elements [first, first + n) as other numbers; integers beyond 2^24 are rounded by float.
void convert(const Array& array, int64_t first, std::span<float> into);
void convert(const Array& array, int64_t first, std::span<int32_t> into);  // of an integer type, values that fit
void convert(const Array& array, int64_t first, std::span<int64_t> into);  // of an integer type

}  // namespace dtrain::data
