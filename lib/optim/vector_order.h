// What an optimizer that looks at all parameters at once asks of whoever holds the vectors: sums of multiples of them,
// and dot products. The vectors lie beside the parameters, on the shard servers; only numbers travel (as in
// Sandblaster: Dean et al. 2012). Plain data.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace dtrain::optim {

// Vectors of the size of all trainable parameters, by number.
enum VectorId : uint32_t {
  kGradientVector = 0,   // of the point under evaluation, the mean over its micro-batches
  kPointVector = 1,      // that point: the parameters' values
  kFirstKept = 2,        // from here on kept from step to step:
  kIterate = 2,          // the last point that was accepted
  kIterateGradient = 3,  // its gradient
  kDirection = 4,
  kStepVector = 5,    // from the iterate before to this one
  kChangeVector = 6,  // of the gradient, likewise
  kKeptEnd = 7,
  kNextPoint = 7,   // written only: the values of the next version
  kSigns = 8,       // read only, in dots: the signs of the other vector
  kFirstSlot = 16,  // the optimizer's slots, in their order
};

struct VectorLine {  // to = Σ coefficient · vector, in fp64 from left to right, rounded once
  uint32_t to = 0;
  std::vector<std::pair<double, uint32_t>> terms;
  bool operator==(const VectorLine&) const = default;
};

struct VectorOrder {
  bool drop_oldest = false;  // first, the slots move down by one pair
  std::vector<VectorLine> lines;
  // The next point becomes the parameters' next version, and `dots` are measured when its gradient is there; otherwise
  // they are measured at once.
  bool commit = false;
  bool accept = false;  // with commit: statistics take the values that the gradient's evaluation made of them
  std::vector<std::pair<uint32_t, uint32_t>> dots;
  bool operator==(const VectorOrder&) const = default;
};

}  // namespace dtrain::optim
