// L-BFGS with a line search for the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 7.4, 7.5, 3.5
// and 3.6), for a function that somebody else evaluates, on vectors that somebody else holds: a pure state machine of
// numbers. It gives an order, is told the function's value and the dot products that the order asked for, and gives the
// next order. The two loops of algorithm 7.4 run on coefficients of the pairs and the gradient, whose dot products it
// keeps (Chen, Wang and Zhou 2014, "Large-scale L-BFGS using MapReduce"). One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/line_search.h"
#include "optim/vector_order.h"

namespace dtrain::optim {

struct LbfgsOptions {
  int64_t history = 10;     // pairs (s, y)
  double tolerance = 1e-6;  // of convergence, see tell()
};

class Lbfgs {
 public:
  // `restored`: the slots hold pairs, the oldest first, zeros behind them, and the point is the iterate that they led
  // to.
  Lbfgs(const LbfgsOptions& options, bool restored);

  enum class Progress {
    kMeasuring,  // order() asks for further dot products of the same point
    kSearching,  // order() leads to another point
    kIterated,   // the point told is a new iterate; the first one is iterate 0. order() leads to another point
    kConverged,  // it is, and the last: the value fell by no more than tolerance · max(|f before|, |f|, 1) (as
                 // L-BFGS-B's factr), or the gradient's norm is at most tolerance · max(1, |f|)
    kStuck,      // no better point can be found along the gradient; the last iterate stays
  };

  // At first what is to be measured of the start. After kConverged and kStuck it leads back to the iterate.
  const VectorOrder& order() const { return order_; }
  // Leads to the last iterate.
  static VectorOrder back_to_iterate();

  // What order() asked for: the value at the point (not looked at where further dots were asked for) and the dots. A
  // value or dots that are not finite are of a point too far away; at the start they are the caller's to refuse.
  Progress tell(double value, std::span<const double> dots);

  bool begun() const { return begun_; }    // there is an iterate
  double value() const { return value_; }  // of the last iterate
  double step() const { return step_; }    // length along the direction that led to it
  size_t pairs() const { return rho_.size(); }

 private:
  Progress judge(double value, std::span<const double> dots);
  Progress accepted(std::span<const double> dots);
  void ask_at_iterate();
  void keep_pair();
  void drop_oldest();
  void clear(VectorOrder& order);
  void search(VectorOrder order);
  void go_to(VectorOrder order, double length);
  double gram(size_t a, size_t b) const { return gram_[a][b]; }

  const LbfgsOptions options_;
  VectorOrder order_;
  bool begun_ = false, measuring_ = false, restored_;
  double value_ = 0.0, before_ = 0.0, step_ = 0.0;
  // Of the vectors s0, y0, s1, … of the pairs: dot products with each other and with the iterate's gradient.
  std::vector<std::vector<double>> gram_;
  std::vector<double> with_gradient_;
  std::vector<double> rho_;                             // 1 / sᵀy of each pair
  double gradient_squared_ = 0.0, gradient_sum_ = 0.0;  // gᵀg, Σ|g|
  std::vector<double> candidate_;                       // the dots of a new pair, as asked for
  LineSearch line_;
};

}  // namespace dtrain::optim
