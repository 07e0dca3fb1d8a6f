// Softmax along one axis and its logarithm, as torch.softmax and torch.log_softmax. With s = Σ exp(x − max x) over the
// axis:
//
//   softmax                in x        out y = exp(x − max x) / s
//   softmax.backward       in dy, y    out dx = y·(dy − Σ dy·y)
//   log_softmax            in x        out y = x − max x − log s
//   log_softmax.backward   in dy, y    out dx = dy − exp(y)·Σ dy
//
// All may run in place (x→y, dy→dx). NaN, or nothing but −∞, along the axis makes all of it NaN.
#pragma once

namespace dtrain::ops {

struct Softmax {
  int axis = 1;  // counted from 0, the batch included; not negative
};

}  // namespace dtrain::ops
