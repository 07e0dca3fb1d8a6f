// Parameters that begin as orthogonal matrices (Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics
// of learning in deep linear neural networks", ICLR 2014): a parameter of shape [rows, …] is a matrix of rows by the
// product of the rest. The shorter side's vectors are orthonormal, times the gain; they come from normal deviates by
// modified Gram-Schmidt in fp64, which is what torch.nn.init.orthogonal_ makes by a QR decomposition with a positive
// diagonal.
//
// Any range of a matrix needs all of it, so the last one is kept: blocks of one parameter should be asked for one after
// the other. Any thread may ask.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/initializer.h"

namespace dtrain::graph {

class OrthogonalMatrices {
 public:
  // Elements first … first + out.size() − 1 of the parameter called `name`; the initializer is of kind kOrthogonal.
  void initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                  std::span<float> out);

 private:
  std::mutex mutex_;
  std::string name_;  // of the matrix that is kept; empty: none
  uint64_t seed_ = 0;
  std::vector<float> matrix_;
};

}  // namespace dtrain::graph
