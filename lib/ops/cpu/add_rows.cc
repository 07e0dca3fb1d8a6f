#include "ops/cpu/add_rows.h"

#include "base/vectorize.h"

namespace dtrain::ops::cpu {

DTRAIN_CLONES
void add_rows(const float* x, int64_t rows, int64_t stride, float* sum, int64_t columns) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
#pragma omp simd
    for (int64_t o = 0; o < columns; ++o) sum[o] = (((sum[o] + a[o]) + b[o]) + c[o]) + d[o];
  }
  for (; r < rows; ++r) {
    const float* a = x + r * stride;
#pragma omp simd
    for (int64_t o = 0; o < columns; ++o) sum[o] += a[o];
  }
}

}  // namespace dtrain::ops::cpu
