// Whoever runs an executable is told here what happens, on the thread that runs it, so that parameters can arrive and
// gradients can leave while it computes. The defaults do nothing.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/parameter.h"

namespace dtrain::graph {

// A parameter's gradient or next value, or a piece of one.
struct ParameterOutput {
  ParameterIndex parameter = 0;
  int64_t first = 0, elements = 0;  // of the parameter
  const float* values = nullptr;    // [elements]
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before the first op that reads the parameter, in forward order. May wait until its value has arrived; an error ends
  // the run.
  virtual Status need_parameter(ParameterIndex) { return {}; }
  // This output is final, and nothing in this run reads the parameter's value any more: it may be changed in place.
  // Pieces of one parameter come in ascending order and end with its last element. Where the executable owns gradients
  // (CompileOptions::own_gradients) the values may be gone after the call.
  virtual void ready(const ParameterOutput&) {}
  // The loss is known; in training, backward follows.
  virtual void metrics_ready() {}
  // Another task needs this value, which is an index of Stage::exports; the bytes are there during the call only.
  virtual void exported(int, ByteSpan) {}
  // After every op's kernel, before ready() hands over what it made; for profiles. An index of Executable::steps().
  virtual void computed(int) {}
  // After every op, for profiles and to end early: an error ends the run. An index of Executable::steps().
  virtual Status step_done(int) { return {}; }
};

}  // namespace dtrain::graph
