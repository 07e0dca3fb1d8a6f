// How long each op of the training program takes, summed over steps: what `dtrain benchmark step --profile` shows. One
// thread, the engine's, until the run has ended.
#pragma once

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

  // The first `warmup` runs of the program are not counted. The clock outlives the profile.
  OpProfile(const Clock& clock, int64_t warmup) : clock_(clock), warmup_(warmup) {}

  void begin(const graph::Executable& program);
  void computed(int op);
  void done(int op);
  void end();

  const std::vector<Op>& ops() const { return ops_; }
  int64_t runs() const { return runs_; }  // of the program, counted
  // From the end of one run of the program to the beginning of the next.
  Nanoseconds between() const { return between_; }

 private:
  Nanoseconds lap();

  const Clock& clock_;
  int64_t warmup_;
  bool counts_ = false;
  int64_t runs_ = 0;
  Instant last_ = 0;
  Nanoseconds between_ = 0;
  std::vector<Op> ops_;
};

}  // namespace dtrain::worker
