// Bytes for people.
#pragma once

#include <fmt/format.h>

#include <string>

namespace dtrain::cmd {

inline std::string bytes_text(double bytes) {
  if (bytes < 10e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 10e6) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (bytes < 10e9) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.1f} GiB", bytes / (1 << 30));
}

}  // namespace dtrain::cmd
