// What kind of step a message speaks of.
#pragma once

#include <cstdint>

namespace dtrain::wire {

enum class StepKind : uint8_t {
  kTrain = 1,  // K micro-batches of the training data; turns version t into t+1
  kEval = 2,   // K_eval micro-batches of the test data at a version; metrics only
};

}  // namespace dtrain::wire
