// Small ops on whole values.
//
//   add       in x1 … xn (n ≥ 2, equal shapes)   out y = act(((x1 + x2) + x3) + …)       attributes: Add
//   mul       in x1 … xn (n ≥ 2, equal shapes)   out y = ((x1 · x2) · x3) · …            attributes: none
//   concat    in x1 … xn                         out y, joined along axis                attributes: Axis
//   slice     in x                               out y = x[…, begin : begin + extent, …] attributes: Slice; the extent
//                                                is the output's
//   slice.backward     in dy                     out dx: dy there, 0 elsewhere           attributes: Slice
//   dropout   in x                               out y = keep ? x / (1 − rate) : 0       attributes: Dropout
//   dropout.backward   in dy                     out dx: the same mask on dy
//   reorder   in x                               out y: the same values in the layout that outputs[0].layout names
//                                                (the one op whose output layout is given); attributes: none
//
// Dropout's mask: sample s of the micro-batch (place first_sample + s in the global batch), element e of the sample in
// row-major order is kept iff uniform01(Philox(seed, stream, step, place).at(e)) ≥ rate.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace dtrain::ops {

struct Add {
  Activation activation;
};

struct Axis {
  int axis = 1;  // counted from 0, the batch included; not negative
};

struct Slice {
  int axis = 1;
  int64_t begin = 0;
};

struct Dropout {
  float rate = 0.5f;
  uint32_t stream = 0;  // stream_id("dropout/" + layer's name)
};

}  // namespace dtrain::ops
