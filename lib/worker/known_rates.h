// The learning rates that a worker was told, of the steps around the one that it works on. One thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/result.h"
#include "proto-free-wire/messages/worker_rates.h"

namespace dtrain::worker {

class KnownRates {
 public:
  // Forgets those of steps before `floor`, but none that it is told now.
  Status add(const wire::WorkerRates& m, int64_t floor) {
    if (m.from < 0 || m.from > kLastStep) return fail(ExitCode::kBug, "learning rates of steps that cannot be");
    if (rates_.size() + m.rates.size() > kMost) return fail(ExitCode::kBug, "learning rates of too many steps");
    for (size_t i = 0; i < m.rates.size(); ++i) {
      if (!std::isfinite(m.rates[i])) return fail(ExitCode::kBug, "a learning rate is not finite");
      rates_[m.from + static_cast<int64_t>(i)] = m.rates[i];
    }
    rates_.erase(rates_.begin(), rates_.lower_bound(std::min(floor, m.from)));
    return {};
  }
  bool has(int64_t first, int64_t last) const {
    return std::distance(rates_.lower_bound(first), rates_.lower_bound(last)) == last - first;
  }
  double at(int64_t step) const {
    const auto rate = rates_.find(step);
    DTRAIN_CHECK(rate != rates_.end(), "the rate of step {} is not known", step);
    return rate->second;
  }

 private:
  // More than any mode needs at a time.
  static constexpr size_t kMost = 4'000'000;
  static constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max() - static_cast<int64_t>(kMost);

  std::map<int64_t, double> rates_;
};

}  // namespace dtrain::worker
