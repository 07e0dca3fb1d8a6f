#include "node/data_feed.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/batch.h"
#include "node/fixed_feed.h"
#include "tests/data/counting_dataset.h"
#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using wire::StepKind;
using worker::Work;

constexpr uint32_t kMicroBatches = 2, kEvalMicroBatches = 5;
constexpr int64_t kMicro = 4;

class DataFeedTest : public testing::Test {
 protected:
  DataFeedTest() : run_(folder_.open(kMlp)) {}

  // What a micro-batch is, without any feed.
  data::Batch wanted(const Work& work, uint32_t m) const {
    const bool training = work.kind == StepKind::kTrain;
    const data::Dataset& dataset = training ? *run_.train : *run_.test;
    const data::Sampler sampler(dataset.size(), run_.spec.seed, training);
    const int64_t first = (training ? work.step * 8 : 0) + m * kMicro;
    data::Batch batch;
    EXPECT_TRUE(data::fill_batch(dataset, sampler,
                                 {first, kMicro, training ? kMicro : std::min(kMicro, dataset.size() - first)}, batch));
    return batch;
  }
  void expect_right(worker::BatchFeed& feed, const Work& work, uint32_t m) {
    SCOPED_TRACE(testing::Message() << "step " << work.step << ", micro-batch " << m);
    const auto micro = feed.take(work, m);
    ASSERT_TRUE(micro) << micro.error().message;
    const data::Batch batch = wanted(work, m);
    EXPECT_EQ(micro->valid, batch.valid);
    EXPECT_EQ(std::memcmp(micro->samples, batch.samples.data(), batch.samples.size()), 0);
    EXPECT_EQ(std::memcmp(micro->labels, batch.labels.data(), batch.labels.size()), 0);
  }
  static Work train(int64_t step, ps::Node node) { return {StepKind::kTrain, step, node}; }
  static Work eval(ps::Node node) { return {StepKind::kEval, 3, node}; }

  RunFolder folder_;
  RunDefinition run_;
};

TEST_F(DataFeedTest, StepsInOrder) {
  for (size_t threads : {1, 3}) {
    run_.train_threads = threads;
    DataFeed feed(run_, kMicroBatches, kEvalMicroBatches);
    for (int64_t step = 0; step < 12; ++step)  // over the ends of two epochs
      for (uint32_t m = 0; m < kMicroBatches; ++m) expect_right(feed, train(step, {0, 2}), m);
  }
}

TEST_F(DataFeedTest, ContentDoesNotDependOnWhatWasAskedBefore) {
  DataFeed feed(run_, kMicroBatches, kEvalMicroBatches);
  expect_right(feed, train(9, {1, 2}), 1);
  expect_right(feed, train(2, {0, 1}), 0);
  expect_right(feed, eval({4, 5}), 4);
  expect_right(feed, train(2, {0, 1}), 0);  // once more
  expect_right(feed, train(3, {0, 2}), 0);
  expect_right(feed, eval({0, 4}), 0);
  expect_right(feed, eval({0, 4}), 1);
  expect_right(feed, train(3, {0, 2}), 1);
  expect_right(feed, train(0, {0, 2}), 0);
  expect_right(feed, train(1'000'000, {1, 2}), 1);
}

TEST_F(DataFeedTest, AnEvaluationTakesEverySampleOnceInOrder) {
  DataFeed feed(run_, kMicroBatches, kEvalMicroBatches);
  int64_t at = 0;
  for (uint32_t m = 0; m < kEvalMicroBatches; ++m) {
    const auto micro = feed.take(eval({0, 5}), m);
    ASSERT_TRUE(micro);
    EXPECT_EQ(micro->valid, m == 4 ? 2 : 4);
    for (int64_t i = 0; i < micro->valid; ++i, ++at) {
      std::vector<float> sample(6);
      int32_t label = -1;
      ASSERT_TRUE(run_.test->read({.index = at}, {.values = sample}, {{&label, 1}, {}}));
      EXPECT_EQ(std::memcmp(static_cast<const float*>(micro->samples) + i * 6, sample.data(), 6 * sizeof(float)), 0);
      EXPECT_EQ(static_cast<const int32_t*>(micro->labels)[i], label);
    }
  }
  EXPECT_EQ(at, run_.test->size());
}

TEST_F(DataFeedTest, WithoutTestData) {
  run_.test = nullptr;
  DataFeed feed(run_, kMicroBatches, 0);
  expect_right(feed, train(0, {0, 2}), 0);
}

TEST_F(DataFeedTest, ReadsAheadAndHandsAnErrorOnWhereItBelongs) {
  auto counting = std::make_shared<data::CountingDataset>(40);
  run_.train = counting;
  run_.shuffle = false;
  counting->set_bad(9);  // in micro-batch 0 of step 1
  DataFeed feed(run_, kMicroBatches, 0);
  ASSERT_TRUE(feed.take(train(0, {0, 2}), 0));
  counting->wait_for_reads(10);  // nobody has asked for step 1
  ASSERT_TRUE(feed.take(train(0, {0, 2}), 1));
  const auto damaged = feed.take(train(1, {0, 2}), 0);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().message, "sample is damaged");
  const auto next = feed.take(train(1, {0, 2}), 1);
  ASSERT_TRUE(next);
  EXPECT_EQ(static_cast<const float*>(next->samples)[0], 12);
}

TEST_F(DataFeedTest, AFixedFeedGivesTheFirstStepForEver) {
  const auto feed = FixedFeed::load(run_, kMicroBatches);
  ASSERT_TRUE(feed) << feed.error().message;
  for (int64_t step : {0, 1, 7}) {
    const auto micro = (*feed)->take(train(step, {0, 2}), 1);
    ASSERT_TRUE(micro);
    const data::Batch batch = wanted(train(0, {0, 2}), 1);
    EXPECT_EQ(std::memcmp(micro->samples, batch.samples.data(), batch.samples.size()), 0);
  }
}

}  // namespace
}  // namespace dtrain::node
