// Another order of the axes (torch.permute).
//
//   transpose   in x   out y[i0, …] with y's axis a being x's axis order[a]    elements of 4 bytes
#pragma once

#include <vector>

namespace dtrain::ops {

struct Transpose {
  std::vector<int> order;  // a permutation of 0 … rank − 1
};

}  // namespace dtrain::ops
