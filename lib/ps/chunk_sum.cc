#include "ps/chunk_sum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {

ChunkSum::Place ChunkSum::at(uint32_t first) {
  return std::lower_bound(held_.begin(), held_.end(), first,
                          [](const Held& h, uint32_t f) { return h.node.first < f; });
}

// What is held is disjoint: only the last that begins no later than the node may contain it.
const ChunkSum::Held* ChunkSum::find_holder(const Node& node) const {
  auto place = at(node.first);
  if (place == held_.end() || place->node.first != node.first) {
    if (place == held_.begin()) return nullptr;
    --place;
  }
  return place->node.contains(node) ? &*place : nullptr;
}

bool ChunkSum::holds(const Node& node) const {
  const auto place = at(node.first);
  return place != held_.end() && place->node == node;
}

Node ChunkSum::holder(const Node& node) const {
  const Held* held = find_holder(node);
  DTRAIN_CHECK(held != nullptr);
  return held->node;
}

uint32_t ChunkSum::prefix() const {
  uint32_t end = 0;
  for (const Held& h : held_) {
    if (h.node.first != end) break;
    end = h.node.last;
  }
  return end;
}

// A sum that a node joins goes only into that node's parent, or makes way for an ancestor, which covers the node.
bool ChunkSum::joins(const Node& node) const {
  return node.size() == micro_batches_ || holds(sibling(node, micro_batches_));
}

void ChunkSum::erase(Place first, Place last) {
  for (Place place = first; place != last; ++place) counted_ -= !place->in_reserve;
  held_.erase(first, last);
}

const float* ChunkSum::add(const Node& node, const ChunkValues& values, SumPool& pool, float* root, bool in_reserve) {
  DTRAIN_CHECK(!covers(node));
  const size_t n = values.size();
  const bool sums = !pool.counts_only();
  const Node whole{0, micro_batches_};
  Node up = node;
  Buffer sum;  // of `up`; empty: it still lies in `values`
  const float* from = values.plain();
  Buffer spare;  // of a descendant

  const Place inside = at(node.first);
  Place behind = inside;
  for (; behind != held_.end() && behind->node.first < node.last; ++behind) {
    if (spare.size() > 0) pool.release(std::move(spare), n);
    spare = std::move(behind->sum);
    in_reserve |= behind->in_reserve;
  }
  erase(inside, behind);

  while (up != whole) {
    const Node other = sibling(up, micro_batches_);
    const Place found = at(other.first);
    if (found == held_.end() || found->node != other) {
      if (sum.size() == 0) {
        sum = spare.size() > 0 ? std::move(spare) : pool.acquire(n);
        if (sums) values.copy_to(sum.as<float>().data());
      } else if (spare.size() > 0) {
        pool.release(std::move(spare), n);
      }
      held_.insert(at(up.first), {up, std::move(sum), in_reserve});
      counted_ += !in_reserve;
      return nullptr;
    }
    in_reserve |= found->in_reserve;
    up = parent(up, micro_batches_);
    float* const other_sum = found->sum.as<float>().data();
    if (up == whole && root) {
      if (sums && sum.size() == 0) values.sum_to(root, other_sum);
      if (sums && sum.size() > 0) ps::add({root, n}, {other_sum, n}, {from, n});
      from = root;
      break;
    }
    if (sums && sum.size() == 0) values.add_to(other_sum);
    if (sums && sum.size() > 0) ps::add({other_sum, n}, {from, n});
    if (sum.size() > 0) pool.release(std::move(sum), n);
    sum = std::move(found->sum);
    from = sum.as<float>().data();
    erase(found, found + 1);
  }

  if (spare.size() > 0) pool.release(std::move(spare), n);
  if (!from && !root) {  // the root itself, and encoded
    sum = pool.acquire(n);
    from = sum.as<float>().data();
    if (sums) values.copy_to(sum.as<float>().data());
  } else if (root && from != root) {
    if (sums && sum.size() == 0) values.copy_to(root);
    if (sums && sum.size() > 0) std::memcpy(root, from, n * sizeof(float));
    from = root;
  }
  free(pool, n);
  complete_ = true;
  if (sum.size() > 0) {
    if (from == root)
      pool.release(std::move(sum), n);
    else
      held_.push_back({whole, std::move(sum), true});
  }
  return from;
}

void ChunkSum::free(SumPool& pool, size_t elements) {
  for (Held& h : held_) pool.release(std::move(h.sum), elements);
  held_.clear();
  counted_ = 0;
}

void ChunkSum::reset(SumPool& pool, size_t elements) {
  free(pool, elements);
  complete_ = false;
}

}  // namespace dtrain::ps
