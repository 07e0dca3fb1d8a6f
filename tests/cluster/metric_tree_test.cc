#include "cluster/metric_tree.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::cluster {
namespace {

// Values whose sum depends on the order of additions.
Metrics leaf(uint32_t k) { return {k % 2 == 0 ? 1e16 : 3.7 + k, 2.0, 1.0, 1.5}; }
Metrics sum(const Metrics& a, const Metrics& b) {
  return {a.loss + b.loss, a.samples + b.samples, a.correct + b.correct, a.among_top + b.among_top};
}
Metrics whole(ps::Node node) {
  if (node.size() == 1) return leaf(node.first);
  const uint32_t middle = ps::split(node);
  return sum(whole({node.first, middle}), whole({middle, node.last}));
}

TEST(MetricTreeTest, AnyOrderOfLeavesGivesTheTreesBits) {
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}}) {
    MetricTree tree(6);
    for (const uint32_t k : order) {
      EXPECT_EQ(tree.root(), nullptr);
      EXPECT_TRUE(tree.add({k, k + 1}, leaf(k)));
    }
    ASSERT_NE(tree.root(), nullptr);
    EXPECT_EQ(*tree.root(), whole({0, 6}));
  }
}

TEST(MetricTreeTest, EveryMicroBatchIsCountedOnce) {
  MetricTree tree(6);
  EXPECT_TRUE(tree.add({1, 2}, leaf(1)));
  EXPECT_FALSE(tree.add({1, 2}, leaf(1)));
  EXPECT_TRUE(tree.add({0, 4}, whole({0, 4}))) << "an ancestor takes the place of what is there";
  EXPECT_FALSE(tree.add({2, 4}, whole({2, 4})));
  EXPECT_TRUE(tree.add({4, 6}, whole({4, 6})));
  EXPECT_FALSE(tree.add({5, 6}, leaf(5)));
  ASSERT_NE(tree.root(), nullptr);
  EXPECT_EQ(*tree.root(), whole({0, 6}));
}

}  // namespace
}  // namespace dtrain::cluster
