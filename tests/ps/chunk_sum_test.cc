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
  return sum.add(node, std::span<const float>(v), pool, root, false);
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
  EXPECT_EQ(sum.need(0), 2u);
  EXPECT_EQ(pool.lent(), 2 * 2 * sizeof(float));
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
    sum.reset(pool, 2);
    EXPECT_FALSE(sum.complete());
    EXPECT_FALSE(sum.covers({0, 1}));
  }
}

TEST(ChunkSum, WhatJoinsTheReserveIsNotCounted) {
  SumPool pool;
  ChunkSum sum(8);
  const auto give = [&](const Node& node, bool in_reserve) {
    const std::vector<float> v = values(node);
    sum.add(node, std::span<const float>(v), pool, nullptr, in_reserve);
  };
  give({2, 3}, false);
  give({5, 6}, false);
  EXPECT_EQ(sum.need(0), 2u);
  EXPECT_EQ(sum.need(3), 5u);
  EXPECT_TRUE(sum.joins({3, 4}));
  EXPECT_FALSE(sum.joins({0, 2}));
  EXPECT_TRUE(sum.joins({0, 8}));
  give({0, 2}, true);
  EXPECT_EQ(sum.need(0), 2u);
  give({3, 4}, false);  // all of [0, 4) becomes one
  EXPECT_EQ(sum.need(0), 1u);
  EXPECT_EQ(sum.prefix(), 4u);
  EXPECT_EQ(sum.holder({2, 3}), (Node{0, 4}));
  give({4, 6}, true);  // takes the place of [5, 6)
  EXPECT_EQ(sum.need(0), 0u);
  EXPECT_EQ(pool.lent(), 2 * 2 * sizeof(float));
}

// Against plain loops over what was given, in any order and mixture of nodes.
TEST(ChunkSum, CoversWhatWasGiven) {
  std::mt19937 random(1);
  constexpr uint32_t k = 11;
  std::vector<Node> nodes;
  for (uint32_t first = 0; first < k; ++first)
    for (uint32_t last = first + 1; last <= k; ++last)
      if (is_node({first, last}, k)) nodes.push_back({first, last});
  for (int round = 0; round < 2000; ++round) {
    std::shuffle(nodes.begin(), nodes.end(), random);
    SumPool pool;
    ChunkSum sum(k);
    std::vector<bool> there(k);
    for (const Node& node : nodes) {
      if (sum.covers(node)) continue;
      const bool joins = sum.joins(node);
      const uint32_t held = sum.need(0);
      const float* root = add(sum, pool, node);
      std::fill(there.begin() + node.first, there.begin() + node.last, true);
      for (const Node& n : nodes)
        ASSERT_EQ(sum.covers(n),
                  std::all_of(there.begin() + n.first, there.begin() + n.last, [](bool b) { return b; }));
      if (!sum.complete()) {
        ASSERT_EQ(sum.prefix(), std::find(there.begin(), there.end(), false) - there.begin());
        ASSERT_EQ(sum.need(0) * 2 * sizeof(float), pool.lent());
        ASSERT_LE(sum.need(0), held + !joins);
        continue;
      }
      EXPECT_EQ(root[0], 55.0f);
      EXPECT_EQ(root[1], 11.0f);
      break;
    }
    ASSERT_TRUE(sum.complete());
    sum.reset(pool, 2);
    ASSERT_EQ(pool.lent(), 0u);
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
          EXPECT_EQ(sum.prefix(), n.first);
          add(sum, pool, n);
          EXPECT_LE(sum.need(0), fold_depth(k));
        }
        first = i + 1;
      }
      EXPECT_TRUE(sum.complete());
    }
  }
}

}  // namespace
}  // namespace dtrain::ps
