#include "worker/engine/gradient_pool.h"

#include <mutex>
#include <vector>

namespace dtrain::worker {

struct GradientPool::State {
  std::mutex mutex;
  std::vector<std::unique_ptr<ParameterStorage>> sets;
  std::vector<const ParameterStorage*> free;
  std::function<void()> on_return;

  void give_back(const ParameterStorage* set) {
    std::function<void()> action;
    {
      std::lock_guard lock(mutex);
      free.push_back(set);
      action = on_return;
    }
    if (action) action();
  }
};

GradientPool::GradientPool(std::span<const ParameterInfo> parameters, ParameterStorage::Of of,
                           std::shared_ptr<SharedMemory> memory)
    : parameters_(parameters), of_(of), memory_(std::move(memory)), state_(std::make_shared<State>()) {}

GradientPool::GradientPool(std::span<const ParameterInfo> parameters, std::vector<bool> held,
                           std::shared_ptr<SharedMemory> memory)
    : parameters_(parameters), held_(std::move(held)), memory_(std::move(memory)), state_(std::make_shared<State>()) {}

GradientPool::~GradientPool() { on_return(nullptr); }

void GradientPool::on_return(std::function<void()> action) {
  std::lock_guard lock(state_->mutex);
  state_->on_return = std::move(action);
}

GradientPool::Lease GradientPool::try_lease(size_t at_most) {
  const ParameterStorage* set = nullptr;
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->free.empty()) {
      set = state_->free.back();
      state_->free.pop_back();
    } else if (state_->sets.size() < at_most) {
      state_->sets.push_back(held_.empty() ? std::make_unique<ParameterStorage>(parameters_, of_, memory_)
                                           : std::make_unique<ParameterStorage>(parameters_, held_, memory_));
      set = state_->sets.back().get();
    }
  }
  if (!set) return nullptr;
  return Lease(set, [state = state_](const ParameterStorage* s) { state->give_back(s); });
}

}  // namespace dtrain::worker
