#include "cluster/norm_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain::cluster {
namespace {

// Two chunks in one block of "large", which therefore is on server 0.
std::vector<ParameterInfo> parameters() {
  return {{"small", {2, 5}, ParameterKind::kTrainable},
          {"mean", {5}, ParameterKind::kStatistic},
          {"large", {7, 10'000}, ParameterKind::kTrainable},
          {"still", {6}, ParameterKind::kFrozen}};
}

wire::NormPartial partial(uint32_t round, std::vector<double> squares) { return {3, round, std::move(squares)}; }

TEST(NormSum, ClipsByTheWholeGradient) {
  const ps::BlockTable table(parameters(), 2);
  ASSERT_EQ(table.block(table.of_parameter(2)[0]).server, 0U);
  const NormRules rules{ps::norm_rounds(true, optim::NormNeed::kNone), 0.5, {}};
  EXPECT_EQ(NormSum::expected(table, rules, 0, 0), 2U);
  EXPECT_EQ(NormSum::expected(table, rules, 1, 0), 1U);
  EXPECT_EQ(NormSum::expected(table, rules, 1, 1), 0U);
  NormSum sum(table, rules, 4);
  EXPECT_FALSE(sum.add(1, partial(0, {4.0})));
  EXPECT_FALSE(sum.add(1, partial(0, {9.0}))) << "it has said so";
  EXPECT_FALSE(sum.gradient_norm());
  EXPECT_TRUE(sum.add(0, partial(0, {9.0, 3.0})));
  EXPECT_EQ(sum.answer(3), (wire::NormFactor{3, 0, 0.5 / (1.0 + 1e-6), {}}));
  EXPECT_EQ(sum.gradient_norm(), 1.0);
  EXPECT_FALSE(sum.add(0, partial(0, {9.0, 3.0}))) << "of a round that is over";
}

// Ratios see the mean gradient, clipped: what the parameter is moved by.
TEST(NormSum, RatiosOfTheClippedGradient) {
  const ps::BlockTable table(parameters(), 2);
  std::vector<std::pair<std::string, std::pair<double, double>>> asked;
  const NormRules rules{ps::norm_rounds(true, optim::NormNeed::kGradient), 0.5,
                        [&](const ParameterInfo& p, double values, double other) {
                          asked.push_back({p.name, {values, other}});
                          return values / other;
                        }};
  EXPECT_EQ(NormSum::expected(table, rules, 0, 0), 4U);
  NormSum sum(table, rules, 4);
  EXPECT_FALSE(sum.add(0, partial(0, {9.0, 3.0, 25.0, 24.0})));  // gradient, values
  EXPECT_TRUE(sum.add(1, partial(0, {4.0, 1.0})));
  const wire::NormFactor answer = sum.answer(3);
  const double factor = 0.5 / (1.0 + 1e-6);
  EXPECT_EQ(answer.factor, factor);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].first, "small");
  EXPECT_EQ(asked[0].second, std::pair(1.0, 2.0 / 4 * factor));
  EXPECT_EQ(asked[1].second, std::pair(7.0, std::sqrt(12.0) / 4 * factor));
  EXPECT_EQ(answer.ratios, (std::vector<double>{1.0 / (0.5 * factor), 1.0, 7.0 / (std::sqrt(12.0) / 4 * factor), 1.0}));
}

TEST(NormSum, DirectionsComeAfterTheFactor) {
  const ps::BlockTable table(parameters(), 1);
  const NormRules rules{ps::norm_rounds(true, optim::NormNeed::kDirection), 0.5,
                        [](const ParameterInfo&, double values, double other) { return values / other; }};
  NormSum sum(table, rules, 4);
  EXPECT_TRUE(sum.add(0, partial(0, {4.0, 9.0, 3.0})));
  EXPECT_EQ(sum.answer(3), (wire::NormFactor{3, 0, 0.5 / (1.0 + 1e-6), {}}));
  EXPECT_TRUE(sum.add(0, partial(1, {4.0, 9.0, 7.0, 1.0, 32.0, 32.0})));  // directions, values
  EXPECT_EQ(sum.answer(3), (wire::NormFactor{3, 1, 0.5 / (1.0 + 1e-6), {0.5, 1.0, 2.0, 1.0}}));
  EXPECT_EQ(sum.gradient_norm(), 1.0);
}

TEST(NormSum, WithoutClippingDirectionsAreTheOnlyRound) {
  const ps::BlockTable table(parameters(), 1);
  const NormRules rules{ps::norm_rounds(false, optim::NormNeed::kDirection), std::nullopt,
                        [](const ParameterInfo&, double, double) { return 2.0; }};
  EXPECT_EQ(NormSum::expected(table, rules, 0, 0), 6U);
  NormSum sum(table, rules, 4);
  EXPECT_TRUE(sum.add(0, partial(0, {4.0, 9.0, 7.0, 1.0, 32.0, 32.0})));
  EXPECT_EQ(sum.answer(3), (wire::NormFactor{3, 0, 1.0, {2.0, 1.0, 2.0, 1.0}}));
  EXPECT_FALSE(sum.gradient_norm());
}

TEST(NormSum, KnowsWhatIsNotFinite) {
  const ps::BlockTable table(parameters(), 1);
  const NormRules rules{ps::norm_rounds(true, optim::NormNeed::kNone), 0.5, {}};
  NormSum sum(table, rules, 4);
  EXPECT_TRUE(sum.add(0, partial(0, {4.0, std::numeric_limits<double>::infinity(), 3.0})));
  sum.answer(3);
  EXPECT_TRUE(sum.broken());
}

}  // namespace
}  // namespace dtrain::cluster
