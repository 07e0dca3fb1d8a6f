// Losses: value and gradient in one op.
//
//   softmax_cross_entropy   in z (logits), labels (I32, z's shape without `axis`)   out metrics[3] F64 (, dz)
//   mse                     in z, labels (F32, z's number of elements)              out metrics[3] F64 (, dz)
//
// metrics = {sum over the first context.valid samples of the sample's loss, valid, correct answers among them}. A
// sample's loss is the mean over its positions (softmax) or elements (mse); with several positions `correct` is the
// sample's share of correct positions; mse has 0. A sample's answer is correct where the first largest logit stands at
// the label. dz is the gradient of the mean of the samples' losses over the *micro-batch* (all N samples: training has
// no padding). softmax: loss = −Σ_c q_c·log p_c, q = (1 − smoothing)·onehot + smoothing/classes, as PyTorch's
// cross_entropy. Sums over samples are made in sample order in fp64.
// A label outside [0, classes) makes its position's loss and dz NaN. A position whose loss is NaN is not correct.
#pragma once

namespace dtrain::ops {

struct SoftmaxCrossEntropy {
  int axis = -1;
  float label_smoothing = 0.0f;
};

struct Mse {};

}  // namespace dtrain::ops
