// L-BFGS with a line search for the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 7.4, 7.5, 3.5
// and 3.6), for a function that somebody else evaluates: ask() for the point, tell() its value and gradient. A pure
// state machine; what it does follows to the bit from what it is told. Points are fp32, what is computed from them
// fp64. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/line_search.h"

namespace dtrain::optim {

struct LbfgsOptions {
  int64_t history = 10;     // pairs (s, y)
  double tolerance = 1e-6;  // of convergence, see tell()
};

class Lbfgs {
 public:
  // `start` is the first point that is asked for.
  Lbfgs(const LbfgsOptions& options, std::vector<float> start);
  // Goes on from an iterate: with its pairs, the oldest first, each of start.size() elements.
  void restore(std::vector<std::vector<float>> s, std::vector<std::vector<float>> y);

  enum class Progress {
    kSearching,  // ask() again
    kIterated,   // the point told is a new iterate; the first one is iterate 0
    kConverged,  // it is, and the last: the value fell by no more than tolerance · max(|f before|, |f|, 1) (as
                 // L-BFGS-B's factr), or the gradient's norm is at most tolerance · max(1, |f|)
    kStuck,  // no better point can be found along the gradient; the last iterate stays
  };

  std::span<const float> ask() const { return point_; }
  // Of ask(). A value or gradient that is not finite is one too large to go to; at the start it is the caller's to
  // refuse.
  Progress tell(double value, std::span<const float> gradient);

  // The last iterate, after the first kIterated.
  std::span<const float> iterate() const { return x_; }
  double value() const { return value_; }
  double step() const { return step_; }  // length along the direction that led to it
  // Oldest first.
  const std::vector<std::vector<float>>& s() const { return s_; }
  const std::vector<std::vector<float>>& y() const { return y_; }

 private:
  Progress accept(double value, std::span<const float> gradient);
  void remember(std::span<const float> gradient);
  void search();
  void choose_direction();
  void go_to(double step);

  const LbfgsOptions options_;
  std::vector<float> point_;  // under evaluation
  bool begun_ = false;
  std::vector<float> x_, gradient_;  // of the last iterate
  double value_ = 0.0, step_ = 0.0;
  std::vector<std::vector<float>> s_, y_;
  std::vector<double> rho_;  // 1 / sᵀy
  std::vector<float> direction_;
  LineSearch line_;
};

}  // namespace dtrain::optim
