#include "graph/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtrain::graph {
namespace {

std::vector<float> draw(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first, size_t n) {
  std::vector<float> out(n);
  initialize(initializer, seed, name, first, out);
  return out;
}

TEST(Initializer, AnyRangeIsAPartOfTheWhole) {
  for (const Initializer& i : {Initializer::uniform(0.3f), Initializer::normal(2.0f),
                               Initializer{Initializer::Kind::kTruncatedNormal, 1.0f, 2.0f}}) {
    const auto whole = draw(i, 7, "a.weight", 0, 100);
    for (int64_t first : {0, 1, 3, 4, 50, 97}) {
      const auto part = draw(i, 7, "a.weight", first, static_cast<size_t>(100 - first));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
    }
  }
}

TEST(Initializer, DependsOnSeedAndName) {
  const Initializer i = Initializer::uniform(1);
  EXPECT_NE(draw(i, 1, "a", 0, 8), draw(i, 2, "a", 0, 8));
  EXPECT_NE(draw(i, 1, "a", 0, 8), draw(i, 1, "b", 0, 8));
}

TEST(Initializer, HasItsDistribution) {
  const auto uniform = draw(Initializer::fan_in(16), 3, "w", 0, 40000);
  const auto [low, high] = std::minmax_element(uniform.begin(), uniform.end());
  EXPECT_GE(*low, -0.25f);
  EXPECT_LT(*high, 0.25f);
  EXPECT_LT(*low, -0.2499f);
  EXPECT_GT(*high, 0.2499f);
  double sum = 0, squares = 0;
  for (float x : draw(Initializer::normal(0.5f), 3, "w", 0, 40000)) {
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 40000, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 40000), 0.5, 0.01);
  EXPECT_EQ(draw(Initializer::constant(1), 3, "w", 5, 3), (std::vector<float>{1, 1, 1}));
}

TEST(Initializer, UniformAndNormalHaveACenter) {
  const auto uniform = draw({Initializer::Kind::kUniform, 3.0f, 1.0f}, 3, "w", 0, 10000);
  const auto [low, high] = std::minmax_element(uniform.begin(), uniform.end());
  EXPECT_GE(*low, 2.0f);
  EXPECT_LT(*low, 2.001f);
  EXPECT_LE(*high, 4.0f);
  EXPECT_GT(*high, 3.999f);
  double sum = 0;
  for (float x : draw({Initializer::Kind::kNormal, -7.0f, 0.5f}, 3, "w", 0, 10000)) sum += x;
  EXPECT_NEAR(sum / 10000, -7, 0.02);
}

TEST(Initializer, TruncatedNormalEndsAtTwoDeviations) {
  const auto values = draw({Initializer::Kind::kTruncatedNormal, 1.0f, 0.5f}, 3, "w", 0, 100000);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, 0.0f);
  EXPECT_LT(*low, 0.001f);
  EXPECT_LE(*high, 2.0f);
  EXPECT_GT(*high, 1.999f);
  double sum = 0, squares = 0;
  int within_one = 0;
  for (float x : values) {
    sum += x;
    squares += (x - 1) * (x - 1);
    within_one += std::abs(x - 1) < 0.5f;
  }
  EXPECT_NEAR(sum / 100000, 1, 0.01);
  // 1 − 2·2·φ(2) / (Φ(2) − Φ(−2)) of the deviation's square is left; 0.6827 / 0.9545 lie within one deviation.
  EXPECT_NEAR(std::sqrt(squares / 100000), 0.5 * std::sqrt(0.77374), 0.002);
  EXPECT_NEAR(within_one / 100000.0, 0.7152, 0.005);
}

}  // namespace
}  // namespace dtrain::graph
