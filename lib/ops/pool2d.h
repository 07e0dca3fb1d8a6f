// Pooling over windows, as torch.nn.functional.max_pool2d and avg_pool2d.
//
//   pool2d             in x[N,C,H,W]        out y[N,C,oh,ow], workspace (opaque, dtype U8, shape and size by the
//   kernel;
//                                           may be empty; only where a second output is requested: training)
//   pool2d.backward    in dy, x's workspace out dx
//   global_avg_pool            in x[N,C,H,W]  out y[N,C]: the mean over H and W
//   global_avg_pool.backward   in dy[N,C]     out dx[N,C,H,W]      (attributes: none, an empty std::any)
//
// o = ⌊(H + 2·pad − kernel) / stride⌋ + 1, with ⌈⌉ where ceil is set, less one where the last window would start beyond
// H + pad. Max: padding counts as −∞; of equal maxima the first in row-major order takes the gradient. Average: the
// divisor counts padding where count_include_pad is set (never what ceil adds beyond H + 2·pad… as PyTorch).
// Padding is at most half the kernel. Whether a maximum over NaN is NaN is the backend's choice.
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::ops {

struct Pool2d {
  enum class Kind { kMax, kAverage };
  Kind kind = Kind::kMax;
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, pad{0, 0};  // {height, width}
  bool ceil = false;
  bool count_include_pad = true;
};

// The extent that one axis gets.
int64_t pool_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil);

}  // namespace dtrain::ops
