#include "data/batch_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/counting_dataset.h"

namespace dtrain::data {
namespace {

std::vector<int32_t> labels_of(const Batch& batch) {
  const auto classes = batch.labels.as<const int32_t>();
  return {classes.begin(), classes.end()};
}

TEST(BatchMakerTest, TheNumberOfThreadsDoesNotShow) {
  const CountingDataset dataset(50);
  const Sampler sampler(50, 3, true);
  for (size_t threads : {1, 2, 5}) {
    BatchMaker maker(dataset, sampler, threads);
    for (int64_t first = 0; first < 120; first += 12) {
      Batch made, wanted;
      ASSERT_TRUE(maker.make({first, 12, 9}, made));
      ASSERT_TRUE(fill_batch(dataset, sampler, {first, 12, 9}, wanted));
      EXPECT_EQ(labels_of(made), labels_of(wanted)) << threads;
      EXPECT_EQ(std::memcmp(made.samples.data(), wanted.samples.data(), wanted.samples.size()), 0) << threads;
    }
  }
}

TEST(BatchMakerTest, ThreadsReadAtTheSameTime) {
  CountingDataset dataset(50);
  const Sampler sampler(50, 3, true);
  BatchMaker maker(dataset, sampler, 3);
  dataset.hold(true);
  std::thread makes([&] {
    Batch batch;
    EXPECT_TRUE(maker.make({0, 8, 8}, batch));
  });
  dataset.wait_for_reads(3);  // would wait for ever if one read came after the other
  dataset.hold(false);
  makes.join();
  EXPECT_EQ(dataset.reads(), 8);
}

TEST(BatchMakerTest, TheErrorIsTheFirstSamples) {
  // Every sample from the third on is damaged, each in its own words.
  class Damaged final : public Dataset {
   public:
    int64_t size() const override { return 20; }
    const Shape& sample_shape() const override { return shape_; }
    const LabelSpec& labels() const override { return spec_; }
    int64_t max_label() const override { return 0; }
    Digest digest() const override { return {}; }
    Status read(const Draw& draw, SampleOut, LabelOut) const override {
      if (draw.index < 3) return {};
      return fail(ExitCode::kData, "sample " + std::to_string(draw.index));
    }

   private:
    Shape shape_{1};
    LabelSpec spec_;
  };
  const Damaged dataset;
  const Sampler sampler(20, 1, false);
  BatchMaker maker(dataset, sampler, 4);
  for (int i = 0; i < 200; ++i) {
    Batch batch;
    const Status made = maker.make({0, 20, 20}, batch);
    ASSERT_FALSE(made);
    ASSERT_EQ(made.error().message, "sample 3");
  }
}

TEST(BatchMakerTest, SeveralBatchesAtATime) {
  const CountingDataset dataset(1000);
  const Sampler sampler(1000, 3, false);
  BatchMaker maker(dataset, sampler, 3);
  std::vector<std::thread> callers;
  for (int64_t c = 0; c < 3; ++c)
    callers.emplace_back([&, c] {
      for (int64_t k = 0; k < 20; ++k) {
        Batch batch;
        const int64_t first = (c * 20 + k) * 7;
        ASSERT_TRUE(maker.make({first, 7, 7}, batch));
        for (int64_t i = 0; i < 7; ++i) ASSERT_EQ(labels_of(batch)[static_cast<size_t>(i)], first + i);
      }
    });
  for (std::thread& t : callers) t.join();
}

}  // namespace
}  // namespace dtrain::data
