// Tables that are looked up by number (torch.nn.functional.embedding).
//
//   embedding                    in tokens[…] (I32, or F32 holding whole numbers), w[V,D]   out y[…,D] = w[tokens]
//   embedding.backward           in tokens, dy[…,D]                                         out dw[V,D]
//   position_embedding           in x[N,T,D], w[L,D] with L ≥ T                             out y = x + w[0 … T − 1]
//   position_embedding.backward  in dy[N,T,D]                                               out dw[L,D], 0 from row T
//   on
//
// No attributes. A token that is not a class 0 … V − 1 gives a row of NaN, and no gradient. Gradients are 0 and then
// the rows of dy, added in their order. position_embedding may run in place (x→y).
#pragma once
