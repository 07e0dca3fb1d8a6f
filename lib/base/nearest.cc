#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace dtrain {

int edit_distance(std::string_view a, std::string_view b) {
  const size_t n = a.size(), m = b.size();
  std::vector<std::vector<int>> d(n + 1, std::vector<int>(m + 1));
  for (size_t i = 0; i <= n; ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= m; ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= n; ++i) {
    for (size_t j = 1; j <= m; ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[n][m];
}

namespace {

// The longest known name that `name` begins with, or else the only one that ends in `name`.
std::string kin(std::string_view name, std::span<const std::string> known) {
  std::string begins, ends;
  int several = 0;
  for (const std::string& k : known) {
    if (k.size() >= 3 && k.size() > begins.size() && name.starts_with(k)) begins = k;
    if (name.size() >= 5 && k.ends_with(name)) {
      ends = k;
      ++several;
    }
  }
  if (!begins.empty()) return begins;
  return several == 1 ? ends : "";
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> known) {
  const int allowed = std::max(2, static_cast<int>(name.size()) / 3);
  int best = allowed + 1;
  std::string found;
  for (const std::string& k : known) {
    const int d = edit_distance(name, k);
    if (d < best) {
      best = d;
      found = k;
    }
  }
  return found.empty() ? kin(name, known) : found;
}

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  if (std::string near = nearest(name, known); !near.empty()) return fmt::format(" (did you mean '{}'?)", near);
  if (known.empty()) return "";
  std::vector<std::string> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  return fmt::format(" (known: {})", fmt::join(sorted, ", "));
}

}  // namespace dtrain
