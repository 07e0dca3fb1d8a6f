#include "ops/pool2d.h"

namespace dtrain::ops {

int64_t pool_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil) {
  const int64_t span = in + 2 * pad - kernel;
  if (span < 0) return 0;
  int64_t out = (ceil ? (span + stride - 1) / stride : span / stride) + 1;
  if (ceil && (out - 1) * stride >= in + pad) --out;
  return out;
}

}  // namespace dtrain::ops
