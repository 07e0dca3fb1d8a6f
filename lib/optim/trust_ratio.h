// What the optimizers for large batches share: which parameters get a trust ratio.
#pragma once

#include "tensor/parameter.h"

namespace dtrain::optim {

// Not biases and the scales of norms, which have one axis, nor where a norm is 0.
inline bool has_trust_ratio(const ParameterInfo& p, double values, double other) {
  return p.shape.rank() > 1 && values > 0.0 && other > 0.0;
}

}  // namespace dtrain::optim
