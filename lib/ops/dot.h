// Scalar products of rows, sample by sample.
//
//   dot                     in a[N,R,D], b[N,S,D]    out y[N,R,S]: a's rows with b's                attributes: none
//   dot.backward            in dy[N,R,S], other      out da[N,R,D] = Σ dy[r,s] · b[s], or, of the second factor,
//                                                    db[N,S,D] = Σ dy[r,s] · a[r]                   attributes: Dot
//   pairwise_dot            in x[N,R,D]              out y[N,R(R−1)/2]: row 1 with 0, 2 with 0, 2 with 1, …
//                                                                                                   attributes: none
//   pairwise_dot.backward   in dy, x                 out dx[N,R,D]                                  attributes: none
#pragma once

namespace dtrain::ops {

// Of the backward op: whose gradient it is.
struct Dot {
  bool second = false;
};

}  // namespace dtrain::ops
