#include "ps/tree.h"

#include <bit>

#include "base/check.h"

namespace dtrain::ps {
namespace {

bool meets(const Node& a, const Node& b) { return a.first < b.last && b.first < a.last; }

// Walks down from `node`, which lies anywhere, and emits the largest nodes inside `wanted` that meet none of `done`.
void collect(const Node& node, const Node& wanted, const std::vector<Node>& done, std::vector<Node>& out) {
  if (!meets(node, wanted)) return;
  bool touched = false;
  for (const Node& d : done) {
    if (d.contains(node)) return;
    touched |= meets(d, node);
  }
  if (wanted.contains(node) && !touched) {
    out.push_back(node);
    return;
  }
  if (node.size() == 1) return;
  const uint32_t middle = split(node);
  collect({node.first, middle}, wanted, done, out);
  collect({middle, node.last}, wanted, done, out);
}

}  // namespace

uint32_t split(const Node& node) {
  DTRAIN_CHECK(node.size() > 1, "a leaf has no parts");
  return node.first + std::bit_floor(node.size() - 1);
}

bool is_node(const Node& node, uint32_t n) {
  if (node.first >= node.last || node.last > n) return false;
  Node at{0, n};
  while (at != node) {
    if (at.size() == 1 || !at.contains(node)) return false;
    const uint32_t middle = split(at);
    at = node.last <= middle ? Node{at.first, middle} : Node{middle, at.last};
  }
  return true;
}

Node parent(const Node& node, uint32_t n) {
  Node at{0, n};
  for (;;) {
    DTRAIN_CHECK(at.size() > 1 && at.contains(node) && at != node, "[{}, {}) has no parent", node.first, node.last);
    const uint32_t middle = split(at);
    const Node child = node.last <= middle ? Node{at.first, middle} : Node{middle, at.last};
    if (child == node) return at;
    at = child;
  }
}

Node sibling(const Node& node, uint32_t n) {
  const Node up = parent(node, n);
  return node.first == up.first ? Node{node.last, up.last} : Node{up.first, node.first};
}

std::vector<Node> maximal_nodes(uint32_t first, uint32_t last, uint32_t n) {
  return remaining_nodes(first, last, {}, n);
}

std::vector<Node> remaining_nodes(uint32_t first, uint32_t last, const std::vector<Node>& done, uint32_t n) {
  std::vector<Node> out;
  if (first < last) collect({0, n}, {first, last}, done, out);
  return out;
}

uint32_t fold_depth(uint32_t size) { return size <= 1 ? 0 : static_cast<uint32_t>(std::bit_width(size - 1)); }

Node share(uint32_t i, uint32_t workers, uint32_t n) {
  const uint64_t w = workers;
  return {static_cast<uint32_t>(uint64_t{n} * i / w), static_cast<uint32_t>(uint64_t{n} * (i + 1) / w)};
}

}  // namespace dtrain::ps
