#include "cluster/stragglers.h"

#include <algorithm>

namespace dtrain::cluster {

void Stragglers::opened(int64_t step, Instant now) {
  step_ = step;
  opened_at_ = now;
  done_.erase(done_.begin(), done_.lower_bound(step));
}

void Stragglers::done(wire::Rank worker, int64_t step, uint32_t micro_batches, Instant now) {
  if (step < step_) return;
  done_[step][worker] += micro_batches;
  if (step != step_ || suspected(worker)) return;
  took_.push_back(now - opened_at_);
  if (took_.size() > kRemembered) took_.pop_front();
}

bool Stragglers::complete(wire::Rank worker, uint32_t share) const {
  const auto step = done_.find(step_);
  if (step == done_.end()) return share == 0;
  const auto mine = step->second.find(worker);
  return (mine == step->second.end() ? 0 : mine->second) >= share;
}

std::vector<wire::Rank> Stragglers::find_late(const std::map<wire::Rank, uint32_t>& shares, Instant now) {
  if (took_.empty() || shares.size() < 2) return {};
  std::vector<Nanoseconds> sorted(took_.begin(), took_.end());
  const auto median = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), median, sorted.end());
  if (now - opened_at_ < static_cast<Nanoseconds>(kFactor * static_cast<double>(*median)) + kSlack) return {};

  std::vector<wire::Rank> late;
  size_t idle = 0;
  for (const auto& [worker, share] : shares) {
    if (suspected(worker)) continue;
    if (complete(worker, share))
      ++idle;
    else
      late.push_back(worker);
  }
  if (idle == 0) return {};
  for (const wire::Rank worker : late) suspects_[worker] = 0;
  return late;
}

bool Stragglers::closed(const std::map<wire::Rank, uint32_t>& shares) {
  bool cleared = false;
  for (auto at = suspects_.begin(); at != suspects_.end();) {
    const auto share = shares.find(at->first);
    const bool in_time = share != shares.end() && complete(at->first, share->second);
    at->second = in_time ? at->second + 1 : 0;
    const bool clear = at->second >= kInTime;
    cleared |= clear;
    at = clear ? suspects_.erase(at) : std::next(at);
  }
  return cleared;
}

void Stragglers::forget(wire::Rank worker) { suspects_.erase(worker); }

}  // namespace dtrain::cluster
