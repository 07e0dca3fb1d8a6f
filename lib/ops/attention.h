// Scaled dot-product attention by several heads (Vaswani et al. 2017), between the projections of
// torch.nn.MultiheadAttention.
//
//   attention            in qkv[N,T,3D]                   out y[N,T,D] (, softmax[N,H,2T])
//   attention.backward   in qkv, y, dy[N,T,D], softmax        out dqkv[N,T,3D]
//
// A row of qkv holds queries, keys and values one after the other, each with H heads of D/H numbers. For each sample
// and head: s = q·kᵀ / √(D/H), causal: −∞ where the key stands after the query; p = softmax of s along the keys;
// y = p·v. softmax holds, of each query, m = the largest s, and behind all these 1 / Σ exp(s − m): from them the
// gradient computes p again (Dao et al. 2022), so that nothing of size T² is kept.
//
// With a NaN among its scores all of a query is NaN; one in a key or value may reach queries before it too.
#pragma once

namespace dtrain::ops {

struct Attention {
  int heads = 1;  // divides D
  bool causal = false;
};

}  // namespace dtrain::ops
