// What a worker computes at a time.
#pragma once

#include <cstdint>

#include "proto-free-wire/step_kind.h"
#include "ps/tree.h"

namespace dtrain::worker {

// The micro-batches of one node of the tree of one step.
struct Work {
  wire::StepKind kind = wire::StepKind::kTrain;
  int64_t step = 0;
  ps::Node node;
  bool push = true;  // its gradient leaves, with those of works before that did not

  auto operator<=>(const Work&) const = default;
};

}  // namespace dtrain::worker
