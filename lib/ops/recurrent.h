// Recurrent layers over x[N,T,I], one layer in one direction with H units: torch.nn.LSTM and torch.nn.GRU with
// batch_first. The state before the first step is zero.
//
//   lstm            in x, w_ih[4H,I], w_hh[4H,H], b_ih[4H], b_hh[4H]   out y (, workspace)
//   gru             in x, w_ih[3H,I], w_hh[3H,H], b_ih[3H], b_hh[3H]   out y (, workspace)
//   lstm.backward   in x, w_ih, w_hh, dy, workspace                    out dw_ih, dw_hh, db_ih, db_hh (, dx)
//   gru.backward    the same
//
// Attributes: Recurrent. y[N,T,H] holds the state after each step, at the place in time of the x that the step read;
// y[N,H] the state after the last step alone. The workspace (opaque, U8) is what backward needs besides x.
//
// With a = w_ih·x + b_ih and b = w_hh·h + b_hh, h the state before the step, cut into one part a gate:
//   lstm   i = σ(a₁+b₁)   f = σ(a₂+b₂)   g = tanh(a₃+b₃)   o = σ(a₄+b₄)    c = f·c + i·g    h = o·tanh(c)
//          (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000)
//   gru    r = σ(a₁+b₁)   z = σ(a₂+b₂)   n = tanh(a₃ + r·b₃)               h = (1 − z)·n + z·h
//          (Cho et al. 2014; the reset gate acts on the product, as in PyTorch and cuDNN)
#pragma once

namespace dtrain::ops {

struct Recurrent {
  bool reverse = false;  // the steps go from the last place in time to the first
};

}  // namespace dtrain::ops
