#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dtrain {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

}  // namespace dtrain
