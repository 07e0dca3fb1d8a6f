#include "config/position.h"

#include <fmt/format.h>

namespace dtrain::config {

std::string to_string(const Position& position) {
  if (!position.in_file()) return position.file();
  return fmt::format("{}:{}:{}", position.file(), position.line(), position.column());
}

}  // namespace dtrain::config
