// Sums over the rows of a matrix: what gradients of biases are made of.
#pragma once

#include <cstdint>

namespace dtrain::ops::cpu {

// sum[o] += element o of each of the rows, `stride` apart, in the order of the rows: the same bits however rows and
// columns are cut into calls.
void add_rows(const float* x, int64_t rows, int64_t stride, float* sum, int64_t columns);

}  // namespace dtrain::ops::cpu
