#include "tensor/dtype.h"

#include "base/check.h"

namespace dtrain {
namespace {

struct Row {
  DType type;
  size_t size;
  std::string_view name;
};
constexpr Row kRows[] = {{DType::kF32, 4, "F32"}, {DType::kF64, 8, "F64"}, {DType::kI64, 8, "I64"},
                         {DType::kU8, 1, "U8"},   {DType::kI32, 4, "I32"}, {DType::kBF16, 2, "BF16"}};

const Row& row(DType type) {
  for (const Row& r : kRows)
    if (r.type == type) return r;
  check_failed(__FILE__, __LINE__, "known dtype", "");
}

}  // namespace

size_t size_of(DType type) { return row(type).size; }
std::string_view name_of(DType type) { return row(type).name; }
std::optional<DType> dtype_by_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.type;
  return std::nullopt;
}

}  // namespace dtrain
