// What a simulated run must come to: plain loops over micro-batches, elements and steps, without blocks, messages or
// state machines, sharing with the code under test nothing but the fake model.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sim/fake_model.h"
#include "sim/scenario.h"

namespace dtrain::sim {

constexpr float kMomentum = 0.9f, kDecay = 0.01f;
inline double ratio_of(double values, double other) { return values / (other + 1.0); }

struct Truth {
  std::vector<Values> versions;              // [0, steps]
  std::vector<Metrics> steps;                // [0, steps)
  std::vector<std::optional<double>> norms;  // [0, steps)
  std::map<int64_t, Metrics> evals;          // of every version that is evaluated
  std::vector<int64_t> snapshots;            // versions that are written
};

Truth find_truth(const Scenario& scenario);

}  // namespace dtrain::sim
