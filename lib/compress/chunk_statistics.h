// Passes over a chunk that several methods take. The same bits on every instruction set.
#pragma once

#include <cstddef>

namespace dtrain::compress {

// residual[i] += values[i]; returns the sum of the absolute values of what comes out.
double add_to_residual(float* residual, const float* values, size_t n);
// Σ values[i]², in fp64.
double sum_of_squares(const float* values, size_t n);

}  // namespace dtrain::compress
