// Batch normalisation over axis 1 of x[N,C,…] (rank 2 or 4), statistics over all other axes (Ioffe & Szegedy 2015,
// PyTorch's BatchNorm1d/2d).
//
//   batch_norm            in x, running_mean[C], running_var[C] (, gamma[C], beta[C])
//                         out y = act((x − mean) / √(var + ε) · gamma + beta), mean[C], var[C] (biased),
//                             next_running_mean[C] = (1 − momentum)·running_mean + momentum·mean,
//                             next_running_var[C]  = (1 − momentum)·running_var  + momentum·var·n/(n−1),
//                             workspace (opaque, U8: what a fused activation's backward needs; may be empty)
//   batch_norm.backward   in x, dy, mean, var, workspace (, gamma, beta)    out dx (, dgamma, dbeta)
//   batch_norm.inference  in x, running_mean, running_var (, gamma, beta)   out y
//
// A fused activation is relu or none. Its backward is part of batch_norm.backward. With one value per channel (n = 1)
// there is no variance: the layer refuses such shapes before they come here.
#pragma once

#include "ops/activation.h"

namespace dtrain::ops {

struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
  Activation activation;
};

}  // namespace dtrain::ops
