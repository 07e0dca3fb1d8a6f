#include "ps/chunk_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {
namespace {

// What ChunkSum::need says, for the nodes in `nodes` that lie in `at`.
uint32_t need_in(const Node& at, std::span<const Node> nodes) {
  bool whole = false, parts = false;
  for (const Node& n : nodes) {
    whole |= n == at;
    parts |= n != at && at.contains(n);
  }
  if (!parts) return whole ? 1 : 0;
  const uint32_t middle = split(at);
  const Node left{at.first, middle}, right{middle, at.last};
  bool left_part = false, right_part = false, left_whole = false, right_whole = false;
  for (const Node& n : nodes) {
    left_whole |= n == left;
    right_whole |= n == right;
    left_part |= n != left && left.contains(n);
    right_part |= n != right && right.contains(n);
  }
  if (left_whole && right_whole && !left_part && !right_part) return 1;
  return need_in(left, nodes) + need_in(right, nodes);
}

}  // namespace

bool ChunkSum::covers(const Node& node) const {
  return complete_ || std::any_of(held_.begin(), held_.end(), [&](const Held& h) { return h.node.contains(node); });
}

uint32_t ChunkSum::prefix() const {
  uint32_t end = 0;
  for (const Held& h : held_) {
    if (h.node.first != end) break;
    end = h.node.last;
  }
  return end;
}

uint32_t ChunkSum::need(std::span<const Node> promised) const {
  if (complete_) return 0;
  const Node root{0, micro_batches_};
  std::vector<Node> nodes;
  for (const Held& h : held_) nodes.push_back(h.node);
  for (const Node& p : promised)
    if (p != root && !covers(p)) nodes.push_back(p);
  return need_in(root, nodes);
}

const float* ChunkSum::add(const Node& node, std::span<const float> values, SumPool& pool, float* root) {
  DTRAIN_CHECK(!covers(node));
  const size_t n = values.size();
  const Node whole{0, micro_batches_};
  Node at = node;
  Buffer sum;  // of `at`; empty: it still lies in `values`
  const float* from = values.data();
  Buffer spare;  // of a descendant

  for (size_t i = 0; i < held_.size();) {
    if (!node.contains(held_[i].node)) {
      ++i;
      continue;
    }
    if (spare.size() > 0) pool.release(std::move(spare));
    spare = std::move(held_[i].sum);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
  }

  while (at != whole) {
    const Node other = sibling(at, micro_batches_);
    const auto place = std::lower_bound(held_.begin(), held_.end(), at.first,
                                        [](const Held& h, uint32_t f) { return h.node.first < f; });
    const auto found = other.first < at.first ? (place == held_.begin() ? held_.end() : place - 1) : place;
    if (found == held_.end() || found->node != other) {
      if (sum.size() == 0) {
        sum = spare.size() > 0 ? std::move(spare) : pool.acquire(n);
        std::memcpy(sum.data(), from, n * sizeof(float));
      } else if (spare.size() > 0) {
        pool.release(std::move(spare));
      }
      held_.insert(place, {at, std::move(sum)});
      return nullptr;
    }
    at = parent(at, micro_batches_);
    if (at == whole && root) {
      ps::add({root, n}, found->sum.as<float>().first(n), {from, n});
      from = root;
      break;
    }
    ps::add(found->sum.as<float>().first(n), {from, n});
    if (sum.size() > 0) pool.release(std::move(sum));
    sum = std::move(found->sum);
    from = sum.as<float>().data();
    held_.erase(found);
  }

  if (spare.size() > 0) pool.release(std::move(spare));
  if (root && from != root) {
    std::memcpy(root, from, n * sizeof(float));
    from = root;
  }
  free(pool);
  complete_ = true;
  if (sum.size() > 0) {
    if (from == root)
      pool.release(std::move(sum));
    else
      held_.push_back({whole, std::move(sum)});
  }
  return from;
}

void ChunkSum::free(SumPool& pool) {
  for (Held& h : held_) pool.release(std::move(h.sum));
  held_.clear();
}

void ChunkSum::reset(SumPool& pool) {
  free(pool);
  complete_ = false;
}

}  // namespace dtrain::ps
