// Passes over a chunk that several methods take. The same bits on every instruction set.
#pragma once

#include <cstddef>

namespace dtrain::compress {

struct Sizes {
  double sum = 0;      // Σ |x|
  double squares = 0;  // Σ x²
};
// residual[i] += values[i]; of what comes out.
Sizes add_to_residual(float* residual, const float* values, size_t n);
// Of what is there.
Sizes sizes_of(const float* values, size_t n);
// Σ values[i]², in fp64.
double sum_of_squares(const float* values, size_t n);

}  // namespace dtrain::compress
