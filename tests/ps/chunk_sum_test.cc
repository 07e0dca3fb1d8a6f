#include "ps/chunk_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dtrain::ps {
namespace {

// Chunks of two elements: {first, size} of a node summed exactly.
std::vector<float> values(const Node& node) {
  float sum = 0;
  for (uint32_t i = node.first; i < node.last; ++i) sum += static_cast<float>(i);
  return {sum, static_cast<float>(node.size())};
}

const float* add(ChunkSum& sum, SumPool& pool, const Node& node, float* root = nullptr) {
  static std::vector<float> v;  // the root may lie in it
  v = values(node);
  return sum.add(node, v, pool, root);
}

TEST(ChunkSum, KeepsWhatComesAndAddsSiblingsUpwards) {
  SumPool pool;
  ChunkSum sum(4);
  EXPECT_EQ(add(sum, pool, {3, 4}), nullptr);
  EXPECT_TRUE(sum.covers({3, 4}));
  EXPECT_FALSE(sum.covers({2, 4}));
  EXPECT_EQ(add(sum, pool, {0, 2}), nullptr);
  EXPECT_TRUE(sum.covers({1, 2}));
  EXPECT_EQ(sum.prefix(), 2u);
  const float* root = add(sum, pool, {2, 3});
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root[0], 6.0f);
  EXPECT_EQ(root[1], 4.0f);
  EXPECT_TRUE(sum.complete());
  EXPECT_TRUE(sum.covers({0, 1}));
}

TEST(ChunkSum, AnAncestorReplacesItsDescendants) {
  SumPool pool;
  ChunkSum sum(8);
  add(sum, pool, {0, 1});
  add(sum, pool, {3, 4});
  add(sum, pool, {5, 6});
  add(sum, pool, {0, 4});
  EXPECT_EQ(sum.need({}), 2u);
  EXPECT_EQ(sum.prefix(), 4u);
  const float* root = add(sum, pool, {4, 8});
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root[0], 28.0f);
  EXPECT_EQ(root[1], 8.0f);
}

TEST(ChunkSum, PutsTheRootWhereItIsWanted) {
  for (const std::vector<Node>& nodes : {std::vector<Node>{{0, 3}}, {{2, 3}, {0, 2}}, {{1, 2}, {2, 3}, {0, 1}}}) {
    SumPool pool;
    ChunkSum sum(3);
    float memory[2] = {};
    const float* root = nullptr;
    for (const Node& n : nodes) root = add(sum, pool, n, memory);
    EXPECT_EQ(root, memory);
    EXPECT_EQ(memory[0], 3.0f);
    EXPECT_EQ(memory[1], 3.0f);
    sum.reset(pool);
    EXPECT_FALSE(sum.complete());
    EXPECT_FALSE(sum.covers({0, 1}));
  }
}

TEST(ChunkSum, NeedsOneSumForAPairAndNoneForTheRoot) {
  const ChunkSum empty(8);
  const auto need = [&](std::vector<Node> promised) { return empty.need(promised); };
  EXPECT_EQ(need({{0, 8}}), 0u);
  EXPECT_EQ(need({{0, 1}}), 1u);
  EXPECT_EQ(need({{0, 1}, {1, 2}}), 1u);
  EXPECT_EQ(need({{0, 1}, {2, 3}}), 2u);
  EXPECT_EQ(need({{0, 1}, {2, 3}, {4, 5}, {6, 7}}), 4u);
  EXPECT_EQ(need({{0, 4}, {0, 1}, {0, 1}}), 1u);
  EXPECT_EQ(need({{0, 4}, {4, 8}}), 1u);
}

// In whatever order the promised nodes come, the sums never outnumber what need() said.
TEST(ChunkSum, NeedIsABound) {
  std::mt19937 random(1);
  constexpr uint32_t k = 11;
  std::vector<Node> nodes;
  for (uint32_t first = 0; first < k; ++first)
    for (uint32_t last = first + 1; last <= k; ++last)
      if (is_node({first, last}, k)) nodes.push_back({first, last});
  for (int round = 0; round < 2000; ++round) {
    std::shuffle(nodes.begin(), nodes.end(), random);
    std::vector<Node> promised(nodes.begin(), nodes.begin() + 1 + static_cast<ptrdiff_t>(random() % nodes.size()));
    SumPool pool;
    ChunkSum sum(k);
    uint32_t bound = sum.need(promised);
    while (!promised.empty() && !sum.complete()) {
      const Node node = promised.back();
      promised.pop_back();
      if (sum.covers(node)) continue;
      const float* root = add(sum, pool, node);
      ASSERT_LE(sum.need({}), bound) << "round " << round;
      const uint32_t now = sum.need(promised);
      ASSERT_LE(now, bound) << "round " << round;
      bound = now;
      if (root) {
        EXPECT_EQ(root[0], 55.0f);
        EXPECT_EQ(root[1], 11.0f);
      }
    }
  }
}

// What comes from left to right needs at most the depth of the tree.
TEST(ChunkSum, PrefixesNeedTheTreesDepth) {
  for (uint32_t k = 1; k <= 12; ++k) {
    for (uint32_t cuts = 0; cuts < (1u << (k - 1)); ++cuts) {
      SumPool pool;
      ChunkSum sum(k);
      uint32_t first = 0;
      for (uint32_t i = 0; i < k; ++i) {
        if (i + 1 < k && !(cuts & (1u << i))) continue;
        for (const Node& n : maximal_nodes(first, i + 1, k)) {
          EXPECT_LE(sum.need({&n, 1}), fold_depth(k));
          EXPECT_EQ(sum.prefix(), n.first);
          add(sum, pool, n);
        }
        first = i + 1;
      }
      EXPECT_TRUE(sum.complete());
    }
  }
}

}  // namespace
}  // namespace dtrain::ps
