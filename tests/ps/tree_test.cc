#include "ps/tree.h"

#include <gtest/gtest.h>

#include <functional>

namespace dtrain::ps {
namespace {

std::vector<Node> all_nodes(uint32_t n) {
  std::vector<Node> out;
  const std::function<void(Node)> walk = [&](Node at) {
    out.push_back(at);
    if (at.size() == 1) return;
    walk({at.first, split(at)});
    walk({split(at), at.last});
  };
  walk({0, n});
  return out;
}

TEST(Tree, LeftPartIsTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(split({0, 2}), 1u);
  EXPECT_EQ(split({0, 3}), 2u);
  EXPECT_EQ(split({0, 4}), 2u);
  EXPECT_EQ(split({0, 5}), 4u);
  EXPECT_EQ(split({8, 14}), 12u);
}

TEST(Tree, KnowsItsNodes) {
  for (uint32_t n = 1; n <= 17; ++n) {
    const std::vector<Node> nodes = all_nodes(n);
    EXPECT_EQ(nodes.size(), 2 * n - 1);
    for (uint32_t first = 0; first <= n + 1; ++first)
      for (uint32_t last = 0; last <= n + 2; ++last)
        EXPECT_EQ(is_node({first, last}, n), std::find(nodes.begin(), nodes.end(), Node{first, last}) != nodes.end());
  }
}

TEST(Tree, SiblingsShareTheirParent) {
  for (uint32_t n = 2; n <= 17; ++n) {
    for (const Node& node : all_nodes(n)) {
      if (node == Node{0, n}) continue;
      const Node other = sibling(node, n), up = parent(node, n);
      EXPECT_EQ(sibling(other, n), node);
      EXPECT_EQ(parent(other, n), up);
      EXPECT_EQ(node.size() + other.size(), up.size());
      EXPECT_TRUE(up.contains(node) && up.contains(other));
    }
  }
}

TEST(Tree, MaximalNodesCoverARangeWithoutSiblings) {
  for (uint32_t n = 1; n <= 17; ++n) {
    for (uint32_t first = 0; first < n; ++first) {
      for (uint32_t last = first + 1; last <= n; ++last) {
        uint32_t at = first;
        const std::vector<Node> nodes = maximal_nodes(first, last, n);
        for (const Node& node : nodes) {
          EXPECT_EQ(node.first, at);
          EXPECT_TRUE(is_node(node, n));
          if (node != Node{0, n}) {
            EXPECT_EQ(std::count(nodes.begin(), nodes.end(), sibling(node, n)), 0);
          }
          at = node.last;
        }
        EXPECT_EQ(at, last);
      }
    }
  }
  EXPECT_TRUE(maximal_nodes(3, 3, 8).empty());
}

TEST(Tree, RemainingNodesLeaveOutWhatIsDone) {
  EXPECT_EQ(remaining_nodes(0, 8, {{0, 2}, {5, 6}}, 8), (std::vector<Node>{{2, 4}, {4, 5}, {6, 8}}));
  EXPECT_TRUE(remaining_nodes(2, 4, {{0, 8}}, 8).empty());
}

TEST(Tree, SharesAreEvenAndInOrder) {
  for (uint32_t workers = 1; workers <= 9; ++workers) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < workers; ++i) {
      const Node s = share(i, workers, 7);
      EXPECT_EQ(s.first, at);
      EXPECT_GE(s.size(), 7 / workers);
      EXPECT_LE(s.size(), 7 / workers + 1);
      at = s.last;
    }
    EXPECT_EQ(at, 7u);
  }
}

TEST(Tree, FoldDepthIsTheLogarithm) {
  const uint32_t expected[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (uint32_t n = 0; n < 10; ++n) EXPECT_EQ(fold_depth(n), expected[n]) << n;
}

}  // namespace
}  // namespace dtrain::ps
