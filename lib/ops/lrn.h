// Local response normalisation across channels of x[N,C,…] (Krizhevsky, Sutskever & Hinton 2012, section 3.3; PyTorch's
// local_response_norm, whose alpha is divided by the window's size).
//
//   lrn            in x        out y = x · s^−β
//   lrn.backward   in x, dy    out dx = dy · s^−β − 2αβ/size · x · Σ′ dy·x·s^(−β−1)
//
// with s = k + α/size · Σ x² over the channels c − ⌊size/2⌋ … c + ⌊(size − 1)/2⌋ (those beyond the ends count as 0),
// and Σ′ over the channels whose windows hold c. s must be above 0: k is.
#pragma once

#include <cstdint>

namespace dtrain::ops {

struct Lrn {
  int64_t size = 5;
  float alpha = 1e-4f;
  float beta = 0.75f;
  float k = 1.0f;
};

}  // namespace dtrain::ops
