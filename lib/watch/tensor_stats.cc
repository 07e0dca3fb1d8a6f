#include "watch/tensor_stats.h"

#include <algorithm>
#include <cmath>

namespace dtrain::watch {

TensorStats stats_of(std::span<const float> values) {
  TensorStats s;
  double sum = 0, squares = 0;
  int64_t n = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) {
      ++s.not_finite;
      continue;
    }
    s.min = n == 0 ? x : std::min<double>(s.min, x);
    s.max = n == 0 ? x : std::max<double>(s.max, x);
    sum += x;
    squares += static_cast<double>(x) * x;
    ++n;
  }
  if (n == 0) return s;
  s.mean = sum / static_cast<double>(n);
  s.norm = std::sqrt(squares);
  // In a second pass, since the difference of large sums would lose what is wanted.
  double around = 0;
  for (const float x : values)
    if (std::isfinite(x)) around += (x - s.mean) * (x - s.mean);
  s.std = std::sqrt(around / static_cast<double>(n));
  return s;
}

}  // namespace dtrain::watch
