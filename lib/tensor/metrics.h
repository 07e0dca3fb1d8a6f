// What a loss says of some samples: sums over them, in fp64. Plain data: kernels write it, tasks send it, and it is
// added along the tree of all sums.
#pragma once

#include <cstdint>

namespace dtrain {

struct Metrics {
  double loss = 0.0, samples = 0.0;
  double correct = 0.0;    // answers, of losses that know right ones
  double among_top = 0.0;  // labels among the k most likely answers, where the loss counts them

  static constexpr int64_t kNumbers = 4;

  double mean_loss() const { return loss / samples; }
  Metrics& operator+=(const Metrics& right) {
    loss += right.loss;
    samples += right.samples;
    correct += right.correct;
    among_top += right.among_top;
    return *this;
  }
  friend Metrics operator+(Metrics left, const Metrics& right) { return left += right; }
  bool operator==(const Metrics&) const = default;
};
static_assert(sizeof(Metrics) == Metrics::kNumbers * sizeof(double));

}  // namespace dtrain
