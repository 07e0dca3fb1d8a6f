#include "node/answer_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::node {
namespace {

using graph::LabelSpec;
using testing::ElementsAre;
using testing::Pair;

const Metrics kMetrics{.loss = 4, .samples = 8, .correct = 2, .among_top = 6};

TEST(AnswerShares, OfClasses) {
  const AnswerShares shares = answer_shares({LabelSpec::Kind::kClasses, {}, 10}, kMetrics);
  EXPECT_THAT(shares, ElementsAre(Pair("accuracy", 0.25)));
  EXPECT_EQ(describe(shares), ", accuracy 0.2500");
}

TEST(AnswerShares, AmongTheFirst) {
  const AnswerShares shares = answer_shares({LabelSpec::Kind::kClasses, {}, 10, 5}, kMetrics);
  EXPECT_THAT(shares, ElementsAre(Pair("accuracy", 0.25), Pair("top5_accuracy", 0.75)));
  EXPECT_EQ(describe(shares, "test "), ", test accuracy 0.2500, test top5_accuracy 0.7500");
}

TEST(AnswerShares, NumbersHaveNone) {
  EXPECT_TRUE(answer_shares({LabelSpec::Kind::kTargets, {3}, 0}, kMetrics).empty());
  EXPECT_EQ(describe({}), "");
}

}  // namespace
}  // namespace dtrain::node
