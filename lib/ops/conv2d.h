// Two-dimensional convolution (cross-correlation, as torch.nn.functional.conv2d).
//
//   conv2d                    in x[N,C,H,W], w[O,C/groups,kh,kw] (, b[O])   out y[N,O,oh,ow] = act(conv(x,w) + b)
//   conv2d.backward_data      in dy[N,O,oh,ow], w                          out dx[N,C,H,W]
//   conv2d.backward_weights   in x, dy                                     out dw (, db[O])
//
// oh = ⌊(H + 2·pad_h − dilation_h·(kh−1) − 1) / stride_h⌋ + 1, ow alike. The backward ops take dy before the
// activation: a fused activation's own backward comes first. The number of inputs or outputs says whether there is a
// bias.
#pragma once

#include <array>
#include <cstdint>

#include "ops/activation.h"

namespace dtrain::ops {

struct Conv2d {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, pad{0, 0}, dilation{1, 1};  // {height, width}
  int64_t groups = 1;
  Activation activation;  // forward only; a backend may say that it cannot fuse it
};

}  // namespace dtrain::ops
