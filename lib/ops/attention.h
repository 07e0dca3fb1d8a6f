// Scaled dot-product attention by several heads (Vaswani et al. 2017), between the projections of
// torch.nn.MultiheadAttention.
//
//   attention            in qkv[N,T,3D]                   out y[N,T,D] (, lse[N,H,T])
//   attention.backward   in qkv, y, dy[N,T,D], lse        out dqkv[N,T,3D]
//
// A row of qkv holds queries, keys and values one after the other, each with H heads of D/H numbers. For each sample
// and head: s = q·kᵀ / √(D/H), causal: −∞ where the key stands after the query; p = softmax of s along the keys;
// y = p·v. lse is log Σ exp(s) of a query, from which the gradient recomputes p (Dao et al. 2022), so that nothing of
// size T² is kept.
//
// NaN in a key or value may reach queries before it too.
#pragma once

namespace dtrain::ops {

struct Attention {
  int heads = 1;  // divides D
  bool causal = false;
};

}  // namespace dtrain::ops
