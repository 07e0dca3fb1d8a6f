#include "figures/figure.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dtrain::figures {

double quantile(const std::vector<double>& sorted, double part) {
  DTRAIN_CHECK(!sorted.empty(), "nothing was measured");
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

Figure summarise(Figure about, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  about.rounds = static_cast<int>(values.size());
  about.median = quantile(values, 0.5);
  about.low = quantile(values, 0.25);
  about.high = quantile(values, 0.75);
  about.best = about.less_is_better ? values.front() : values.back();
  return about;
}

}  // namespace dtrain::figures
