// Whoever runs an executable is told here what happens, on the thread that runs it, so that parameters can arrive and
// gradients can leave while it computes. The defaults do nothing.
#pragma once

#include "base/result.h"
#include "tensor/parameter.h"

namespace dtrain::graph {

class Observer {
 public:
  virtual ~Observer() = default;
  // Before the first op that reads the parameter, in forward order. May wait until its value has arrived; an error ends
  // the run.
  virtual Status need_parameter(ParameterIndex) { return {}; }
  // The parameter's output is final and nothing in this run reads its value any more: it may be changed in place.
  virtual void ready(ParameterIndex) {}
  // The loss is known; in training, backward follows.
  virtual void metrics_ready() {}
  // After every op, for profiles and to end early: an error ends the run. An index of Executable::steps().
  virtual Status step_done(int) { return {}; }
};

}  // namespace dtrain::graph
