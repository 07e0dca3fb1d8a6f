// The one binary tree over micro-batches [0, n) along which everything is summed: the left part of a node is the
// largest power of two below its size. Ranges of the tree are nested or disjoint, so that a sum is the same bits
// whoever made which part of it. Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace dtrain::ps {

// Micro-batches [first, last), a node of the tree.
struct Node {
  uint32_t first = 0, last = 0;

  uint32_t size() const { return last - first; }
  bool contains(const Node& other) const { return first <= other.first && other.last <= last; }
  auto operator<=>(const Node&) const = default;
};

// Where a node of more than one micro-batch is cut: its children are [first, split) and [split, last).
uint32_t split(const Node& node);
// Whether [first, last) is a node of the tree over [0, n).
bool is_node(const Node& node, uint32_t n);
// The other child of the parent; `node` is not the root.
Node sibling(const Node& node, uint32_t n);
Node parent(const Node& node, uint32_t n);
// The largest nodes of the tree over [0, n) that lie inside [first, last), in order.
std::vector<Node> maximal_nodes(uint32_t first, uint32_t last, uint32_t n);
// The largest nodes that cover what lies inside [first, last) but in none of `done` (nodes too), in order.
std::vector<Node> remaining_nodes(uint32_t first, uint32_t last, const std::vector<Node>& done, uint32_t n);
// How many partial sums a fold over a node of this size holds at most at the same time, the running leaf not counted:
// ⌈log₂ size⌉.
uint32_t fold_depth(uint32_t size);
// [first, last) of worker i of `workers` over [0, n): contiguous, in order, sizes differing by at most one.
Node share(uint32_t i, uint32_t workers, uint32_t n);

}  // namespace dtrain::ps
