// Batch normalisation over axis 1 of x[N,C,…] (rank 2 or 4), statistics over all other axes (Ioffe & Szegedy 2015,
// PyTorch's BatchNorm1d/2d), with what often follows it: the addition of a residual branch r of x's shape, and relu.
// BatchNorm says which of the inputs in brackets are there.
//
//   batch_norm            in x, running_mean[C], running_var[C] (, gamma[C], beta[C]) (, r)
//                         out y = act((x − mean) / √(var + ε) · gamma + beta (+ r)), mean[C], var[C] (biased),
//                             next_running_mean[C] = (1 − momentum)·running_mean + momentum·mean,
//                             next_running_var[C]  = (1 − momentum)·running_var  + momentum·var·n/(n−1)
//   batch_norm.backward   in x, mean, var (, gamma) (, y: with relu), dy₁ … dyₖ (1 ≤ k ≤ 8, whose sum is dy)
//                         out dx (, dgamma, dbeta) (, dr)
//   batch_norm.inference  in x, running_mean, running_var (, gamma, beta) (, r)   out y
//
// dr, the gradient of r, is an output where one more is asked for than the others. With one value per channel (n = 1)
// there is no variance: the layer refuses such shapes before they come here.
#pragma once

#include <cstddef>

#include "ops/activation.h"

namespace dtrain::ops {

struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
  bool affine = true;     // gamma and beta
  bool residual = false;  // r
  Activation activation;  // relu or none

  static constexpr size_t kMostGradients = 8;  // k of batch_norm.backward
};

}  // namespace dtrain::ops
