// Layer normalisation over the last axis of x[…,D] (Ba, Kiros & Hinton 2016, PyTorch's LayerNorm of one axis). A row is
// what lies along that axis; there are R of them.
//
//   layer_norm            in x (, gamma[D], beta[D])
//                         out y = (x − mean) · rstd · gamma + beta (, mean[R], rstd[R]: training),
//                             rstd = 1 / √(var + ε), var biased
//   layer_norm.backward   in x, dy, mean, rstd (, gamma)    out dx (, dgamma[D], dbeta[D])
#pragma once

namespace dtrain::ops {

struct LayerNorm {
  float epsilon = 1e-5f;
};

}  // namespace dtrain::ops
