#include "ps/arrival_sum.h"

#include <gmock/gmock.h>

#include <deque>

namespace dtrain::ps {
namespace {

using testing::ElementsAre;

class ArrivalSumTest : public testing::Test {
 protected:
  const float* add(ArrivalSum& sum, uint32_t k, std::vector<float> values, float* root = nullptr) {
    given_.push_back(std::move(values));
    return sum.add({k, k + 1}, std::span<const float>(given_.back()), pool_, root, false);
  }
  SumPool pool_;
  std::deque<std::vector<float>> given_;
};

TEST_F(ArrivalSumTest, TheFirstThatComeInTheirOrder) {
  ArrivalSum sum(3);
  // In this order the small ones are lost beside the large one, in another they would not be.
  EXPECT_EQ(add(sum, 4, {0x1p24F, 1}), nullptr);
  EXPECT_TRUE(sum.covers({4, 5}));
  EXPECT_FALSE(sum.covers({0, 1}));
  EXPECT_EQ(add(sum, 0, {1, 2}), nullptr);
  EXPECT_FALSE(sum.complete());
  const float* root = add(sum, 2, {1, 4});
  ASSERT_NE(root, nullptr);
  EXPECT_TRUE(sum.complete());
  EXPECT_THAT(std::vector<float>(root, root + 2), ElementsAre(0x1p24F, 7));
  EXPECT_TRUE(sum.covers({1, 2})) << "needed no more";
}

TEST_F(ArrivalSumTest, IntoTheMemoryOfTheRoot) {
  ArrivalSum sum(2);
  std::vector<float> root(2);
  EXPECT_EQ(add(sum, 1, {1, 2}, root.data()), nullptr);
  EXPECT_EQ(add(sum, 0, {3, 4}, root.data()), root.data());
  EXPECT_THAT(root, ElementsAre(4, 6));
}

TEST_F(ArrivalSumTest, OneAloneIsNotCopied) {
  ArrivalSum sum(1);
  const float* root = add(sum, 3, {5, 6});
  EXPECT_EQ(root, given_.back().data());
  sum.reset(pool_, 2);
  std::vector<float> memory(2);
  EXPECT_EQ(add(sum, 3, {5, 6}, memory.data()), memory.data());
  EXPECT_THAT(memory, ElementsAre(5, 6));
}

// One sum lies here, however many come.
TEST_F(ArrivalSumTest, MemoryThatItMayNeed) {
  ArrivalSum sum(3);
  EXPECT_EQ(sum.need(0), 0u);
  EXPECT_EQ(sum.need(2), 1u);
  EXPECT_FALSE(sum.joins({0, 1}));
  add(sum, 0, {1});
  EXPECT_EQ(sum.need(0), 1u);
  EXPECT_EQ(sum.need(2), 1u);
  EXPECT_TRUE(sum.joins({1, 2}));
  add(sum, 1, {1});
  add(sum, 2, {1});
  EXPECT_EQ(sum.need(2), 0u);
  ArrivalSum alone(1);
  EXPECT_EQ(alone.need(2), 0u);
  EXPECT_TRUE(alone.joins({0, 1}));
}

// A sum that was begun in the reserve stays there.
TEST_F(ArrivalSumTest, ASumInTheReserveNeedsNoRoomOutside) {
  ArrivalSum sum(3);
  const std::vector<float> values{1};
  sum.add({0, 1}, std::span<const float>(values), pool_, nullptr, true);
  EXPECT_EQ(sum.need(2), 0u);
}

TEST_F(ArrivalSumTest, AfterAResetItKnowsNothing) {
  ArrivalSum sum(2);
  add(sum, 0, {1});
  add(sum, 1, {2});
  sum.free(pool_, 1);
  EXPECT_TRUE(sum.complete());
  sum.reset(pool_, 1);
  EXPECT_FALSE(sum.complete());
  EXPECT_FALSE(sum.covers({0, 1}));
  EXPECT_EQ(add(sum, 0, {4}), nullptr);
  EXPECT_EQ(*add(sum, 1, {8}), 12);
}

}  // namespace
}  // namespace dtrain::ps
