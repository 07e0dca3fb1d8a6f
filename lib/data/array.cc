#include "data/array.h"

#include "base/check.h"

namespace dtrain::data {
namespace {

// Calls f with a value of the C++ type that `type` stands for.
template <typename F>
auto visit(ElementType type, const F& f) {
  switch (type) {
    case ElementType::kU8:
      return f(uint8_t{});
    case ElementType::kI8:
      return f(int8_t{});
    case ElementType::kU16:
      return f(uint16_t{});
    case ElementType::kI16:
      return f(int16_t{});
    case ElementType::kI32:
      return f(int32_t{});
    case ElementType::kI64:
      return f(int64_t{});
    case ElementType::kF32:
      return f(float{});
    case ElementType::kF64:
      return f(double{});
  }
  check_failed(__FILE__, __LINE__, "known element type", "");
}

template <typename To>
void convert_to(const Array& array, int64_t first, std::span<To> into) {
  visit(array.type, [&]<typename From>(From) {
    // A .npy header need not end at a multiple of the element's size, so elements are loaded as bytes.
    const std::byte* from = array.data() + static_cast<size_t>(first) * sizeof(From);
    for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<To>(load_le<From>(from + i * sizeof(From)));
  });
}

}  // namespace

size_t size_of(ElementType type) {
  return visit(type, []<typename T>(T) { return sizeof(T); });
}
bool is_integer(ElementType type) { return type != ElementType::kF32 && type != ElementType::kF64; }

std::optional<uint64_t> array_bytes(ElementType type, const Shape& shape) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t bytes = size_of(type);
  for (int64_t d : shape.dims()) {
    if (d < 0) return std::nullopt;
    if (d != 0 && bytes > kMost / static_cast<uint64_t>(d)) return std::nullopt;
    bytes *= static_cast<uint64_t>(d);
  }
  return bytes;
}

void convert(const Array& array, int64_t first, std::span<float> into) { convert_to(array, first, into); }
void convert(const Array& array, int64_t first, std::span<int32_t> into) {
  DTRAIN_CHECK(is_integer(array.type));
  convert_to(array, first, into);
}
void convert(const Array& array, int64_t first, std::span<int64_t> into) {
  DTRAIN_CHECK(is_integer(array.type));
  convert_to(array, first, into);
}

}  // namespace dtrain::data
