// What the optimizers that keep moments share: how their decay is read and corrected for.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "config/table_reader.h"

namespace dtrain::optim {

// A moment's decay: 0 or more, and below 1.
inline double read_beta(config::TableReader& reader, const char* key, double standard) {
  const double value = reader.number(key, standard, 0.0, 1.0);
  if (value == 1.0) reader.error(key, fmt::format("'{}' in [optimizer] must be below 1", key));
  return value;
}

// base^exponent by multiplications alone: the same bits on every host, which pow() does not promise.
inline double power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

}  // namespace dtrain::optim
