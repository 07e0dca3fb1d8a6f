#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> take(const Sampler& sampler, int64_t first, size_t n) {
  std::vector<int64_t> indices(n);
  sampler.indices(first, indices);
  return indices;
}

TEST(SamplerTest, EachEpochHasEverySampleOnce) {
  const Sampler sampler(101, 7, true);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    auto order = take(sampler, epoch * 101, 101);
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 101; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

// The permutation is part of what a run is: a change of it changes every result.
TEST(SamplerTest, OrderIsFixed) {
  EXPECT_THAT(shuffled_order(1, 0, 8), ElementsAre(0, 5, 6, 3, 4, 7, 1, 2));
  EXPECT_THAT(shuffled_order(1, int64_t{1} << 32, 8), ElementsAre(3, 7, 6, 2, 4, 0, 5, 1));
}

TEST(SamplerTest, AnyCutOfTheSequenceIsTheSequence) {
  const Sampler sampler(10, 3, true);
  const auto whole = take(sampler, 0, 57);
  for (int64_t first = 0; first < 57; ++first)
    for (size_t n = 0; first + static_cast<int64_t>(n) <= 57; ++n)
      ASSERT_TRUE(std::equal(whole.begin() + first, whole.begin() + first + static_cast<int64_t>(n),
                             take(sampler, first, n).begin()));
}

TEST(SamplerTest, WithoutShufflingTheFilesOrderRepeats) {
  EXPECT_THAT(take(Sampler(3, 1, false), 1, 7), ElementsAre(1, 2, 0, 1, 2, 0, 1));
}

TEST(SamplerTest, FarAwayEpochsAreReached) {
  const Sampler sampler(3, 1, true);
  auto order = take(sampler, int64_t{3} << 60, 3);
  std::sort(order.begin(), order.end());
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(SamplerTest, PlacesAreEven) {
  std::vector<std::vector<int>> count(6, std::vector<int>(6));
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    const auto order = shuffled_order(5, epoch, 6);
    for (size_t i = 0; i < 6; ++i) ++count[i][static_cast<size_t>(order[i])];
  }
  for (const auto& row : count)
    for (int n : row) EXPECT_NEAR(n, 1000, 150);
}

}  // namespace
}  // namespace dtrain::data
