// Group normalisation of x[N,C,…] (Wu & He 2018, PyTorch's GroupNorm): over all positions and C/groups neighbouring
// channels of one sample. groups divides C.
//
//   group_norm            in x (, gamma[C], beta[C])
//                         out y = (x − mean) · rstd · gamma + beta (, mean[N,groups], rstd[N,groups]: training),
//                             rstd = 1 / √(var + ε), var biased
//   group_norm.backward   in x, dy, mean, rstd (, gamma)    out dx (, dgamma[C], dbeta[C])
#pragma once

#include <cstdint>

namespace dtrain::ops {

struct GroupNorm {
  int64_t groups = 1;
  float epsilon = 1e-5f;
};

}  // namespace dtrain::ops
