// Fully connected layer (torch.nn.functional.linear). Leading extents of x are rows.
//
//   linear                    in x[…,I], w[O,I] (, b[O])     out y[…,O] = act(x·wᵀ + b)
//   linear.backward_data      in dy[…,O], w                  out dx[…,I]
//   linear.backward_weights   in x, dy                       out dw[O,I] (, db[O])
//   linear.backward_rows      in x, dy                       out rows first … first + n − 1 of dw: [n,I]; LinearRows
//   linear.backward_bias      in dy                          out db[O]; no attributes
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace dtrain::ops {

struct Linear {
  Activation activation;  // forward only; a backend may say that it cannot fuse it
};

struct LinearRows {
  int64_t first = 0;
};

}  // namespace dtrain::ops
