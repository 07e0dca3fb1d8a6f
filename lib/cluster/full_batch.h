// Where the coordinator stands with an optimizer that looks at all parameters at once. Plain data of the coordinator's.
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/dot_sum.h"
#include "optim/lbfgs.h"

namespace dtrain::cluster {

struct FullBatch {
  enum class Stage {
    kNotBegun,
    kEvaluating,  // the gradient of the servers' version is being made, and what was asked for of it measured
    kMeasuring,   // a point is being accepted: more is measured of it
    kCommitting,  // the servers go to the next version
  };

  optim::Lbfgs lbfgs;
  DotSum dots;
  int64_t iteration = 0;  // iterates so far: the run's steps
  Stage stage = Stage::kNotBegun;
  bool to_boundary = false;                               // the version that is being committed is one
  std::optional<optim::VectorOrder> after_boundary = {};  // where to go on from there
  uint32_t orders = 0;                                    // that were given for the version under way
};

}  // namespace dtrain::cluster
