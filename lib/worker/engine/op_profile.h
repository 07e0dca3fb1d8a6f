// How long each op of the training program takes, summed over steps: what `dtrain benchmark step --profile` shows. One
// thread, the engine's, until the run has ended.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "graph/executable.h"

namespace dtrain::worker {

class OpProfile {
 public:
  struct Op {
    std::string name, implementation;
    int layer = -1;
    double flops = 0, bytes = 0;  // of one run
    int64_t runs = 0;             // a kept copy of a parameter is not made in each
    Nanoseconds compute = 0;      // in its kernel
    Nanoseconds hand_over = 0;    // in what follows: sums, optimizer, messages
  };

  // The first `warmup` steps are not counted; a step is so many runs of the program, one a micro-batch. The clock
  // outlives the profile.
  OpProfile(const Clock& clock, int64_t warmup, int64_t runs_per_step)
      : clock_(clock), runs_per_step_(runs_per_step), warmup_(warmup * runs_per_step) {}

  void begin(const graph::Executable& program);
  void computed(int op);
  void done(int op);
  void end();

  const std::vector<Op>& ops() const { return ops_; }
  // That were counted: to divide sums by, so at least 1.
  double steps() const { return std::max(1.0, static_cast<double>(runs_) / static_cast<double>(runs_per_step_)); }
  // From the end of one run of the program to the beginning of the next.
  Nanoseconds between() const { return between_; }

 private:
  Nanoseconds lap();

  const Clock& clock_;
  int64_t runs_per_step_;
  int64_t warmup_;
  bool counts_ = false;
  int64_t runs_ = 0;
  Instant last_ = 0;
  Nanoseconds between_ = 0;
  std::vector<Op> ops_;
};

}  // namespace dtrain::worker
