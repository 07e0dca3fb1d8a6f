// Losses: value and gradient in one op.
//
//   softmax_cross_entropy   in z (logits), labels (I32, z's shape without `axis`)   out metrics F64 (, dz)
//   sigmoid_cross_entropy   in z (logits), t (F32, z's number of elements)          out metrics F64 (, dz)
//   mse, huber, cosine      in z, t (F32, z's number of elements)                   out metrics F64 (, dz)
//
// metrics is a Metrics (tensor/metrics.h), a vector of Metrics::kNumbers: sums over the first context.valid samples. A
// sample's loss is the mean over its positions (softmax, cosine) or elements (the others). dz is the gradient of the
// mean of the samples' losses over the *micro-batch* (all N samples: training has no padding). Sums over samples are
// made in sample order in fp64. The loss of a position or element:
//   softmax   −Σ_c q_c·log p_c, q = (1 − smoothing)·onehot + smoothing/classes, as PyTorch's cross_entropy
//   sigmoid   −t·log σ(z) − (1 − t)·log σ(−z), as max(z, 0) − z·t + log(1 + e^−|z|)
//   mse       (z − t)²
//   huber     d = |z − t|; ½d² up to delta, delta·(d − ½delta) beyond
//   cosine    1 − z·t / (max(|z|, ε)·max(|t|, ε)), z and t the vectors along the last axis
//
// softmax alone counts answers; the others have 0. A position's answer is correct where the first largest logit stands
// at the label. It is `among_top` where fewer than top_k logits come before the label's: the larger ones, and the equal
// ones of lower classes (0 where top_k is 0). Of a sample with several positions both are its share of positions. A
// label outside [0, classes) makes its position's loss and dz NaN; a position whose loss is NaN is not correct, nor
// among the top.
#pragma once

#include <cstdint>

#include "tensor/metrics.h"

namespace dtrain::ops {

struct SoftmaxCrossEntropy {
  int axis = -1;
  float label_smoothing = 0.0f;
  int64_t top_k = 0;
};

struct SigmoidCrossEntropy {};

struct Mse {};

struct Huber {
  float delta = 1.0f;
};

struct Cosine {};
constexpr double kCosineEpsilon = 1e-8;  // as torch.nn.functional.cosine_similarity

}  // namespace dtrain::ops
