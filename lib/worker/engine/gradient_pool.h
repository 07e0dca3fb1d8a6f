// Memory for gradients: sets that hold one output for every parameter (a gradient, or a statistic's next value). A set is
// leased; it comes back when the last holder of the lease lets go, on whatever thread, so that a set under way to a server
// is never written.
//
// Thread-safe. Outlives its leases.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/parameter.h"

namespace dtrain::worker {

class GradientSet {
 public:
  explicit GradientSet(std::span<const ParameterInfo> parameters);

  std::span<float* const> outputs() const { return outputs_; }
  float* output(ParameterIndex p) const { return outputs_[static_cast<size_t>(p)]; }

 private:
  Buffer buffer_;
  std::vector<float*> outputs_;  // each aligned to 64 bytes
};

class GradientPool {
 public:
  explicit GradientPool(std::span<const ParameterInfo> parameters) : parameters_(parameters) {}

  using Lease = std::shared_ptr<const GradientSet>;
  // A free set, made anew where fewer than `at_most` exist; null where all are leased.
  Lease try_lease(size_t at_most);
  // Called after each return of a set, on the thread that returned it. Set before the first lease.
  void on_return(std::function<void()> action) { on_return_ = std::move(action); }
  static size_t set_bytes(std::span<const ParameterInfo> parameters);

 private:
  void give_back(const GradientSet* set);

  std::span<const ParameterInfo> parameters_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<GradientSet>> sets_;
  std::vector<const GradientSet*> free_;
  std::function<void()> on_return_;
};

}  // namespace dtrain::worker
