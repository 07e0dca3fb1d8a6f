#include "cluster/lease_book.h"

#include <algorithm>

namespace dtrain::cluster {

std::optional<Lease> LeaseBook::lease(wire::Rank worker) {
  Lease lease;
  if (!returned_.empty()) {
    lease = *returned_.begin();
    returned_.erase(returned_.begin());
  } else if (next_ < end_) {
    lease = {next_, std::min(end_, next_ + each_)};
    next_ = lease.last;
  } else {
    return std::nullopt;
  }
  open_[worker].insert(lease);
  return lease;
}

bool LeaseBook::done(wire::Rank worker, int64_t g) {
  const auto mine = open_.find(worker);
  if (mine == open_.end()) return false;
  for (const Lease& lease : mine->second) {
    if (g < lease.first || g >= lease.last) continue;
    const Lease left{lease.first, g}, right{g + 1, lease.last};
    mine->second.erase(lease);
    if (left.first < left.last) mine->second.insert(left);
    if (right.first < right.last) mine->second.insert(right);
    if (mine->second.empty()) open_.erase(mine);
    return true;
  }
  return false;
}

void LeaseBook::lost(wire::Rank worker) {
  const auto mine = open_.find(worker);
  if (mine == open_.end()) return;
  returned_.insert(mine->second.begin(), mine->second.end());
  open_.erase(mine);
}

size_t LeaseBook::held(wire::Rank worker) const {
  const auto mine = open_.find(worker);
  return mine == open_.end() ? 0 : mine->second.size();
}

}  // namespace dtrain::cluster
