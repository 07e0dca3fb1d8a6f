#include "worker/engine/gradient_pool.h"

namespace dtrain::worker {
namespace {

size_t aligned_bytes(const ParameterInfo& p) {
  const size_t bytes = static_cast<size_t>(p.shape.elements()) * sizeof(float);
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

}  // namespace

size_t GradientPool::set_bytes(std::span<const ParameterInfo> parameters) {
  size_t bytes = 0;
  for (const ParameterInfo& p : parameters) bytes += aligned_bytes(p);
  return bytes;
}

GradientSet::GradientSet(std::span<const ParameterInfo> parameters) : buffer_(GradientPool::set_bytes(parameters)) {
  buffer_.zero();  // touched here, so that the first step does not pay for page faults in the middle of backward
  std::byte* at = buffer_.data();
  for (const ParameterInfo& p : parameters) {
    outputs_.push_back(reinterpret_cast<float*>(at));
    at += aligned_bytes(p);
  }
}

GradientPool::Lease GradientPool::try_lease(size_t at_most) {
  const GradientSet* set = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      set = free_.back();
      free_.pop_back();
    } else if (sets_.size() < at_most) {
      sets_.push_back(std::make_unique<GradientSet>(parameters_));
      set = sets_.back().get();
    }
  }
  if (!set) return nullptr;
  return Lease(set, [this](const GradientSet* s) { give_back(s); });
}

void GradientPool::give_back(const GradientSet* set) {
  {
    std::lock_guard lock(mutex_);
    free_.push_back(set);
  }
  if (on_return_) on_return_();
}

}  // namespace dtrain::worker
