#include "worker/engine/own_steps.h"

#include <gmock/gmock.h>

#include <cmath>

#include "config/parse.h"
#include "optim/optimizer_spec.h"

namespace dtrain::worker {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

const std::vector<ParameterInfo> kParameters = {{"a", {3}, ParameterKind::kTrainable, 2.0F, 0.0F},
                                                {"mean", {2}, ParameterKind::kStatistic},
                                                {"b", {1}, ParameterKind::kTrainable}};

std::shared_ptr<const optim::Optimizer> momentum() {
  const auto table = config::parse_toml("lr = 1\nmomentum = 0.5\nweight_decay = 0.1", "run.toml");
  config::Diagnostics diagnostics;
  return optim::read_optimizer_spec(*table, diagnostics).optimizer;
}

class OwnStepsTest : public testing::Test {
 protected:
  void load(std::vector<float> a, std::vector<float> mean, std::vector<float> b) {
    steps_.begin();
    steps_.load(0, a.data());
    steps_.load(1, mean.data());
    steps_.load(2, b.data());
  }
  std::vector<float> now(ParameterIndex p) const {
    const auto at = static_cast<size_t>(p);
    return {steps_.values()[at], steps_.values()[at] + kParameters[at].shape.elements()};
  }
  OwnSteps steps_{kParameters, momentum()};
};

TEST_F(OwnStepsTest, TakesStepsOfThePiecesThatCome) {
  load({1, 2, 3}, {7, 8}, {4});
  const std::vector<float> head{0.5F}, tail{1, 1.5F}, mean{9, 10}, b{2};
  // In pieces, and in any order. "a" moves twice as fast and does not decay; "b" decays.
  const std::vector<graph::ParameterOutput> outputs{
      {2, 0, 1, b.data()}, {0, 1, 2, tail.data()}, {1, 0, 2, mean.data()}, {0, 0, 1, head.data()}};
  steps_.apply(outputs, 0, 0.5, 1.0F);
  EXPECT_THAT(now(0), ElementsAre(0.5F, 1, 1.5F));
  EXPECT_THAT(now(1), ElementsAre(9, 10));
  EXPECT_THAT(now(2), ElementsAre(FloatEq(4 - 0.5F * (2 + 0.1F * 4))));
  steps_.apply(outputs, 1, 0.5, 0.5F);  // the gradients scaled, and half of the momentum before
  EXPECT_THAT(now(0), ElementsAre(0.5F - (0.25F + 0.25F), 1 - (0.5F + 0.5F), 1.5F - (0.75F + 0.75F)));
}

TEST_F(OwnStepsTest, ARoundBeginsWithNothing) {
  const std::vector<float> a{1, 1, 1};
  const std::vector<graph::ParameterOutput> outputs{{0, 0, 3, a.data()}};
  load({1, 2, 3}, {7, 8}, {4});
  steps_.apply(outputs, 0, 0.5, 1.0F);
  const std::vector<float> first = now(0);
  steps_.apply(outputs, 1, 0.5, 1.0F);
  EXPECT_NE(now(0), first);
  load({1, 2, 3}, {7, 8}, {4});
  steps_.apply(outputs, 0, 0.5, 1.0F);
  EXPECT_EQ(now(0), first);
}

TEST_F(OwnStepsTest, WhatItComesToIsTheWayThatWasGone) {
  load({1, 2, 3}, {7, 8}, {4});
  const std::vector<float> a{0.5F, 1, 1.5F}, mean{9, 10}, start{1, 2, 3};
  const std::vector<graph::ParameterOutput> outputs{{0, 0, 3, a.data()}, {1, 0, 2, mean.data()}};
  steps_.apply(outputs, 0, 0.5, 1.0F);
  std::vector<float> out(3);
  steps_.result(0, start.data(), out.data());
  EXPECT_THAT(out, ElementsAre(0.5F, 1, 1.5F)) << "like a gradient: a step of 1 along it is the same place";
  const std::vector<float> before{7, 8};
  std::vector<float> statistic(2);
  steps_.result(1, before.data(), statistic.data());
  EXPECT_THAT(statistic, ElementsAre(9, 10));
}

TEST_F(OwnStepsTest, MemoryIsACopyAndTheSlots) {
  EXPECT_EQ(OwnSteps::bytes(kParameters, *momentum()), 2 * ParameterStorage::bytes(kParameters));
}

// One norm for all, whatever order its pieces leave in.
TEST(GradientNorm, OfTrainableOnes) {
  const std::vector<float> a{3, 0, 4}, mean{100, 100}, b{12};
  const std::vector<graph::ParameterOutput> outputs{
      {1, 0, 2, mean.data()}, {2, 0, 1, b.data()}, {0, 2, 1, a.data() + 2}, {0, 0, 2, a.data()}};
  EXPECT_EQ(gradient_norm(kParameters, outputs), 13);
}

}  // namespace
}  // namespace dtrain::worker
