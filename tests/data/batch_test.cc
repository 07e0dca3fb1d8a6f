#include "data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/counting_dataset.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;

TEST(BatchTest, SamplesStandInTheSamplersOrder) {
  const CountingDataset dataset(5);
  const Sampler sampler(5, 1, false);
  Batch batch;
  ASSERT_TRUE(fill_batch(dataset, sampler, {3, 3, 3}, batch));
  EXPECT_THAT(batch.samples.as<float>(), ElementsAre(3, -3, 4, -4, 0, 0));
  EXPECT_THAT(batch.labels.as<int32_t>(), ElementsAre(3, 4, 0));
}

TEST(BatchTest, ABatchLargerThanTheDataRepeatsThem) {
  const CountingDataset dataset(2);
  const Sampler sampler(2, 1, false);
  Batch batch;
  ASSERT_TRUE(fill_batch(dataset, sampler, {0, 5, 5}, batch));
  EXPECT_THAT(batch.labels.as<int32_t>(), ElementsAre(0, 1, 0, 1, 0));
}

TEST(BatchTest, APartialBatchIsFilledUpWithItsFirstSample) {
  const CountingDataset dataset(5);
  const Sampler sampler(5, 1, false);
  Batch batch;
  ASSERT_TRUE(fill_batch(dataset, sampler, {2, 4, 2}, batch));
  EXPECT_EQ(batch.valid, 2);
  EXPECT_EQ(batch.size, 4);
  EXPECT_THAT(batch.samples.as<float>(), ElementsAre(2, -2, 3, -3, 2, -2, 2, -2));
  EXPECT_THAT(batch.labels.as<int32_t>(), ElementsAre(2, 3, 2, 2));
}

TEST(BatchTest, MemoryIsUsedAgain) {
  const CountingDataset dataset(5);
  const Sampler sampler(5, 1, true);
  Batch batch;
  ASSERT_TRUE(fill_batch(dataset, sampler, {0, 4, 4}, batch));
  const std::byte* before = batch.samples.data();
  ASSERT_TRUE(fill_batch(dataset, sampler, {4, 4, 4}, batch));
  EXPECT_EQ(batch.samples.data(), before);
}

TEST(BatchTest, AnErrorOfTheDatasetComesThrough) {
  CountingDataset dataset(5);
  dataset.set_bad(3);
  const Sampler sampler(5, 1, false);
  Batch batch;
  EXPECT_FALSE(fill_batch(dataset, sampler, {0, 5, 5}, batch));
}

}  // namespace
}  // namespace dtrain::data
