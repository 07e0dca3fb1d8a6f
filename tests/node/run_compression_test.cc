// What run files say of compression, and what cannot go together with it.
#include "node/run_compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

class RunCompressionTest : public testing::Test {
 protected:
  std::string error(std::vector<std::string> overrides) {
    const Result<RunDefinition> run = folder_.read(kMlp, overrides);
    return run ? "" : run.error().message;
  }
  const std::vector<std::string> kSgd = {"optimizer.type=sgd", "optimizer.momentum=0.9"};
  std::string sgd_error(std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), kSgd.begin(), kSgd.end());
    return error(overrides);
  }
  RunFolder folder_;
};

TEST_F(RunCompressionTest, IsReadWithItsKeys) {
  EXPECT_FALSE(folder_.read(kMlp)->compression.any());
  EXPECT_FALSE(folder_.read(kMlp)->why_not_reproducible());
  const auto run = folder_.read(kMlp, {"train.compression=2bit", "train.compress_pulls=1bit"});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->compression.gradients->codec().name(), "2bit");
  EXPECT_EQ(run->compression.pulls->codec().name(), "1bit");
  EXPECT_FALSE(run->speculate);
  EXPECT_TRUE(run->why_not_reproducible());
  EXPECT_EQ(error({"train.compression={ type = \"topk\", ratio = 0.1 }"}), "");
  EXPECT_EQ(error({"train.compression=2bit", "train.consistency=async"}), "");
}

TEST_F(RunCompressionTest, CombinationsThatCannotBeAreRefused) {
  EXPECT_THAT(error({"train.compression=2bit", "train.reproducible=true"}), HasSubstr("'reproducible'"));
  EXPECT_EQ(error({"train.compression=2bit", "train.reproducible=false"}), "");
  EXPECT_EQ(error({"train.compression=none", "train.reproducible=true"}), "");
  EXPECT_THAT(error({"train.compress_pulls=2bit", "train.reproducible=true"}), HasSubstr("'compress_pulls'"));
  EXPECT_THAT(error({"train.compression=2bit", "train.speculation=true"}), HasSubstr("'speculation'"));
  EXPECT_THAT(error({"train.compression=2bits"}), HasSubstr("'2bit'"));
  EXPECT_THAT(error({"train.compress_pulls=dgc"}), HasSubstr("for gradients"));
  EXPECT_THAT(error({"train.compress_pulls=2bit", "train.consistency=async"}), HasSubstr("'async'"));
  EXPECT_THAT(error({"train.compress_pulls=2bit", "train.consistency={ type = \"stale\", bound = 2 }"}),
              HasSubstr("'stale'"));
  EXPECT_THAT(sgd_error({"train.compression=dgc", "optimizer.clip_norm=1"}), HasSubstr("clip_norm"));
  EXPECT_THAT(error({"train.compression=dgc"}), HasSubstr("sgd"));  // adam
}

TEST_F(RunCompressionTest, MomentumActsOnce) {
  std::vector<std::string> overrides = kSgd;
  overrides.push_back("train.compression=dgc");
  const auto dgc = folder_.read(kMlp, overrides);
  ASSERT_TRUE(dgc) << dgc.error().message;
  EXPECT_TRUE(dgc->compression.gradients->takes_momentum());
  EXPECT_TRUE(dgc->optimizer.optimizer->slot_names().empty());
  // A gradient that arrives moves the value by itself alone.
  const float gradient = 1, from = 2;
  float to = 0;
  for (int step = 0; step < 2; ++step) {
    dgc->optimizer.optimizer->update({.rate = 0.5}, 1, &gradient, &from, &to, nullptr);
    EXPECT_EQ(to, 1.5f);
  }
  overrides.push_back("optimizer.weight_decay=0.1");
  EXPECT_EQ(folder_.read(kMlp, overrides)->optimizer.optimizer->slot_names().size(), 1u);
  for (const char* const method : {"train.compression=1bit", "train.compression=2bit", "train.compression=topk"}) {
    overrides.back() = method;
    EXPECT_TRUE(folder_.read(kMlp, overrides)->compression.gradients->takes_momentum());
    EXPECT_TRUE(folder_.read(kMlp, overrides)->optimizer.optimizer->slot_names().empty());
    overrides.push_back("optimizer.clip_norm=1");
    EXPECT_FALSE(folder_.read(kMlp, overrides)->compression.gradients->takes_momentum());
    EXPECT_EQ(folder_.read(kMlp, overrides)->optimizer.optimizer->slot_names().size(), 1u);
    overrides.pop_back();
  }
}

}  // namespace
}  // namespace dtrain::node
