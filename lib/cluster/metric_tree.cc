#include "cluster/metric_tree.h"

#include "base/check.h"

namespace dtrain::cluster {

bool MetricTree::add(ps::Node node, Metrics metrics) {
  DTRAIN_CHECK(ps::is_node(node, micro_batches_));
  for (const auto& [other, sum] : held_) {
    if (other.contains(node)) return false;
  }
  std::erase_if(held_, [&](const auto& held) { return node.contains(held.first); });
  while (node.size() < micro_batches_) {
    const auto other = held_.find(ps::sibling(node, micro_batches_));
    if (other == held_.end()) break;
    const bool left = node.first < other->first.first;
    const Metrics& a = left ? metrics : other->second;
    const Metrics& b = left ? other->second : metrics;
    const Metrics sum = a + b;
    held_.erase(other);
    metrics = sum;
    node = ps::parent(node, micro_batches_);
  }
  held_.emplace(node, metrics);
  return true;
}

const Metrics* MetricTree::root() const {
  const auto root = held_.find({0, micro_batches_});
  return root == held_.end() ? nullptr : &root->second;
}

Metrics MetricTree::sum() const {
  Metrics sum;
  for (const auto& [node, metrics] : held_) sum += metrics;
  return sum;
}

uint32_t MetricTree::micro_batches() const {
  uint32_t n = 0;
  for (const auto& [node, metrics] : held_) n += node.size();
  return n;
}

}  // namespace dtrain::cluster
