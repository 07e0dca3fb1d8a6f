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

// A dataset of tokens that tells what it was asked for.
class DrawsDataset final : public Dataset {
 public:
  int64_t size() const override { return 3; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return DType::kI32; }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return 0; }
  Digest digest() const override { return {}; }
  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    sample.tokens[0] = static_cast<int32_t>(draw.index);
    sample.tokens[1] = static_cast<int32_t>(draw.number);
    sample.tokens[2] = static_cast<int32_t>(draw.seed);
    label.classes[0] = 0;
    return {};
  }

 private:
  Shape shape_{3};
  LabelSpec spec_;
};

TEST(BatchTest, TokensAreIntegersAndEachSampleKnowsItsPlaceInTheRun) {
  const DrawsDataset dataset;
  const Sampler sampler(3, 9, false);
  Batch batch;
  ASSERT_TRUE(fill_batch(dataset, sampler, {5, 3, 2}, batch));
  EXPECT_THAT(batch.samples.as<int32_t>(), ElementsAre(2, 5, 9, 0, 6, 9, 2, 5, 9));
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
