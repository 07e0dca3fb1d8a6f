// What lstm and gru of the reference backend share: the extents of a call, where a step reads and writes, and the sums
// over weights and over steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/recurrent.h"
#include "ops/reference/plain_op.h"

namespace dtrain::ops::reference {

struct Recurrence {
  // x, w_ih and w_hh are the first three inputs of every op.
  explicit Recurrence(const OpRequest& request)
      : samples(request.inputs[0].shape[0]),
        steps(request.inputs[0].shape[1]),
        inputs(request.inputs[0].shape[2]),
        units(request.inputs[2].shape[1]),
        gates(request.inputs[2].shape[0]),
        reverse(request.attributes_as<Recurrent>().reverse) {}

  int64_t samples, steps, inputs, units;
  int64_t gates;  // values of all gates: 4H or 3H
  bool reverse;

  // Row of x (and of a y with all states) that sample n's step s reads.
  int64_t row(int64_t n, int64_t s) const { return n * steps + (reverse ? steps - 1 - s : s); }
  // Where the state after step s stands in y; −1 where y has the last state alone and this is another.
  int64_t state_at(const Shape& y, int64_t n, int64_t s) const {
    if (y.rank() == 3) return row(n, s) * units;
    return s == steps - 1 ? n * units : -1;
  }
  // A workspace has so many values for each sample and step, those of a sample's steps one after the other.
  int64_t place(int64_t n, int64_t s, int64_t width) const { return (n * steps + s) * width; }
};

// bias + w·v for a matrix w of bias.size() rows.
std::vector<double> affine(const float* w, const float* bias, int64_t rows, std::span<const double> v);

// One sample's and step's part of the gradients: d are those of w_ih·x + b_ih, e those of w_hh·h + b_hh.
class RecurrentGradients {
 public:
  RecurrentGradients(const Call& call, const Recurrence& r);
  void add(int64_t n, int64_t s, std::span<const double> d, std::span<const double> e, std::span<const double> state);
  // Adds what this step hands to the state before it.
  void to_state(std::span<const double> e, std::vector<double>& dh) const;
  void write() const;  // into the call's outputs

 private:
  const Call& call_;
  Recurrence r_;
  std::vector<double> w_ih_, w_hh_, b_ih_, b_hh_;
};

}  // namespace dtrain::ops::reference
