// Fully connected layer (torch.nn.functional.linear). Leading extents of x are rows.
//
//   linear                    in x[…,I], w[O,I] (, b[O])     out y[…,O] = act(x·wᵀ + b)
//   linear.backward_data      in dy[…,O], w                  out dx[…,I]
//   linear.backward_weights   in x, dy                       out dw[O,I] (, db[O])
#pragma once

#include "ops/activation.h"

namespace dtrain::ops {

struct Linear {
  Activation activation;  // forward only; a backend may say that it cannot fuse it
};

}  // namespace dtrain::ops
