// A bias for each channel of images, where the op before cannot add it.
//
//   channel_bias            in x[N,C,H,W], b[C]   out y = act(x + b)    may run in place (x→y)
//   channel_bias.backward   in dy[N,C,H,W]        out db[C], the sums over samples and positions
#pragma once

#include "ops/activation.h"

namespace dtrain::ops {

struct ChannelBias {
  Activation activation;  // forward only; a backend may say that it cannot fuse it
};

}  // namespace dtrain::ops
