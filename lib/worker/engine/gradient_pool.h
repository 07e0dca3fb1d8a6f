// Memory for gradients: sets that hold one array for every parameter. A set is leased; it comes back when the last
// holder of the lease lets go, on whatever thread, so that what is under way to a server is never written.
//
// Thread-safe. Leases may outlive the pool.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "worker/engine/parameter_storage.h"

namespace dtrain::worker {

class GradientPool {
 public:
  using Lease = std::shared_ptr<const ParameterStorage>;

  explicit GradientPool(std::span<const ParameterInfo> parameters, ParameterStorage::Of of = ParameterStorage::Of::kAll,
                        std::shared_ptr<SharedMemory> memory = nullptr);
  // Sets of the parameters of which `held` is true.
  GradientPool(std::span<const ParameterInfo> parameters, std::vector<bool> held,
               std::shared_ptr<SharedMemory> memory = nullptr);
  ~GradientPool();

  // A free set, made anew where fewer than `at_most` exist; null where all are leased.
  Lease try_lease(size_t at_most);
  // Called after each return of a set, on the thread that returned it. Set before the first lease.
  void on_return(std::function<void()> action);

 private:
  struct State;
  std::span<const ParameterInfo> parameters_;
  const ParameterStorage::Of of_ = ParameterStorage::Of::kAll;
  const std::vector<bool> held_;                // empty: as of_ says
  const std::shared_ptr<SharedMemory> memory_;  // where sets lie; null: the heap
  std::shared_ptr<State> state_;
};

}  // namespace dtrain::worker
