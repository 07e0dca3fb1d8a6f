#include "data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/counting_dataset.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;

class PrefetcherTest : public ::testing::Test {
 protected:
  std::vector<int32_t> labels(Prefetcher& prefetcher, const BatchRequest& request) {
    Result<Batch> batch = prefetcher.take(request);
    EXPECT_TRUE(batch);
    if (!batch) return {};
    const auto classes = batch->labels.as<int32_t>();
    std::vector<int32_t> out(classes.begin(), classes.end());
    prefetcher.give_back(std::move(*batch));
    return out;
  }
  static BatchRequest at(int64_t first) { return {first, 2, 2}; }

  CountingDataset dataset_{100};
  Sampler sampler_{100, 1, false};
};

TEST_F(PrefetcherTest, GivesTheSameWhetherAnnouncedOrNot) {
  Prefetcher prefetcher(dataset_, sampler_, 3);
  for (int64_t first = 0; first < 200; first += 2) {
    if (first % 3 != 0) prefetcher.prefetch(at(first));
    if (first % 5 == 0) prefetcher.prefetch(at(first + 2));
    EXPECT_THAT(labels(prefetcher, at(first)), ElementsAre(first % 100, first % 100 + 1));
  }
}

TEST_F(PrefetcherTest, WorksAheadAndNoFurtherThanItsCapacity) {
  Prefetcher prefetcher(dataset_, sampler_, 2);
  EXPECT_TRUE(prefetcher.prefetch(at(0)));
  EXPECT_TRUE(prefetcher.prefetch(at(2)));
  EXPECT_TRUE(prefetcher.prefetch(at(2)));
  EXPECT_FALSE(prefetcher.prefetch(at(4)));
  dataset_.wait_for_reads(4);
  EXPECT_THAT(labels(prefetcher, at(2)), ElementsAre(2, 3));
  EXPECT_TRUE(prefetcher.prefetch(at(4)));
  dataset_.wait_for_reads(6);
  EXPECT_THAT(labels(prefetcher, at(0)), ElementsAre(0, 1));
  EXPECT_THAT(labels(prefetcher, at(4)), ElementsAre(4, 5));
  EXPECT_EQ(dataset_.reads(), 6);
}

TEST_F(PrefetcherTest, WhatWasForgottenMakesRoom) {
  Prefetcher prefetcher(dataset_, sampler_, 2);
  dataset_.hold(true);
  ASSERT_TRUE(prefetcher.prefetch(at(0)));
  dataset_.wait_for_reads(1);  // the thread is in the middle of it
  ASSERT_TRUE(prefetcher.prefetch(at(2)));
  prefetcher.clear();
  EXPECT_TRUE(prefetcher.prefetch(at(0)));
  EXPECT_FALSE(prefetcher.prefetch(at(6)));  // the batch in the middle still takes its room
  dataset_.hold(false);
  EXPECT_THAT(labels(prefetcher, at(0)), ElementsAre(0, 1));
  EXPECT_THAT(labels(prefetcher, at(2)), ElementsAre(2, 3));
}

TEST_F(PrefetcherTest, StopsInTheMiddleAndStillGives) {
  Prefetcher prefetcher(dataset_, sampler_, 4);
  for (int64_t first : {0, 2, 4}) ASSERT_TRUE(prefetcher.prefetch(at(first)));
  dataset_.wait_for_reads(1);
  prefetcher.stop();
  EXPECT_FALSE(prefetcher.prefetch(at(6)));
  for (int32_t first : {4, 0, 2}) EXPECT_THAT(labels(prefetcher, at(first)), ElementsAre(first, first + 1));
}

TEST_F(PrefetcherTest, ErrorsComeWithTheBatchTheyBelongTo) {
  dataset_.set_bad(3);
  Prefetcher prefetcher(dataset_, sampler_, 4);
  for (int64_t first : {0, 2, 4}) ASSERT_TRUE(prefetcher.prefetch(at(first)));
  EXPECT_FALSE(prefetcher.take(at(2)));
  EXPECT_TRUE(prefetcher.take(at(0)));
  EXPECT_TRUE(prefetcher.take(at(4)));
}

TEST_F(PrefetcherTest, GoesWithoutHavingBeenUsed) { Prefetcher prefetcher(dataset_, sampler_, 2); }

}  // namespace
}  // namespace dtrain::data
