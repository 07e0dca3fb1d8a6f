// The element types of tensors, with the names that safetensors gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dtrain {

// The values travel on the wire and never change their meaning.
enum class DType : uint8_t { kF32 = 1, kF64 = 2, kI64 = 3, kU8 = 4, kI32 = 5, kBF16 = 6 };

size_t size_of(DType type);
std::string_view name_of(DType type);  // "F32", "F64", "I64", "U8", "I32", "BF16"
std::optional<DType> dtype_by_name(std::string_view name);

}  // namespace dtrain
