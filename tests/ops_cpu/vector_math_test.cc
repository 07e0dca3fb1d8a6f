#include "ops/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain::ops::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance from the exact value in units of the last place of the float nearest to it.
double ulps(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (got == nearest) return 0;
  const double place = static_cast<double>(std::nextafter(std::fabs(nearest), kInfinity)) - std::fabs(nearest);
  return std::fabs(got - exact) / place;
}

TEST(VectorMath, ExponentialIsWithinTwoUlp) {
  double worst = 0;
  float at = 0;
  // Every 97th float of either sign up to 104, subnormal results included.
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(104.0f); bits += 97)
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double exact = std::exp(static_cast<double>(x));
      if (exact > std::numeric_limits<float>::max()) {
        ASSERT_TRUE(x < 88.8f || exponential(x) == kInfinity) << x;
        continue;
      }
      const double error = ulps(exponential(x), exact);
      if (!(error <= worst)) worst = error, at = x;
    }
  EXPECT_LE(worst, 2.0) << "at " << at;
}

TEST(VectorMath, ExponentialAtTheEnds) {
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-0.0f), 1.0f);
  EXPECT_EQ(exponential(kInfinity), kInfinity);
  EXPECT_EQ(exponential(-kInfinity), 0.0f);
  EXPECT_EQ(exponential(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

// The worst error over every 97th float of either sign up to `end`.
template <typename F, typename Exact>
double worst_ulps(F f, Exact exact, float end) {
  double worst = 0;
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(end); bits += 97)
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double error = ulps(f(x), exact(static_cast<double>(x)));
      if (!(error <= worst)) worst = error;
    }
  return worst;
}

TEST(VectorMath, Sigmoid) {
  // Up to where the result is still normal.
  EXPECT_LE(worst_ulps([](float x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, 87.0f), 3);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(sigmoid(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, HyperbolicTangent) {
  EXPECT_LE(worst_ulps([](float x) { return hyperbolic_tangent(x); }, [](double x) { return std::tanh(x); }, 30.0f), 3);
  for (float x = 1e-6f; x < 12.0f; x *= 1.37f) EXPECT_EQ(hyperbolic_tangent(-x), -hyperbolic_tangent(x));
  EXPECT_TRUE(std::signbit(hyperbolic_tangent(-0.0f)));
  EXPECT_EQ(hyperbolic_tangent(-0.0f), 0.0f);
  EXPECT_EQ(hyperbolic_tangent(kInfinity), 1.0f);
  EXPECT_EQ(hyperbolic_tangent(-kInfinity), -1.0f);
  EXPECT_TRUE(std::isnan(hyperbolic_tangent(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, Logarithm) {
  for (double x = 1e-300; x < 1e300; x *= 1.0371)
    ASSERT_NEAR(logarithm(x), std::log(x), 4e-16 * (1 + std::fabs(std::log(x)))) << x;
  for (double x = 0.5; x < 2.0; x += 0.000173) ASSERT_NEAR(logarithm(x), std::log(x), 4e-16) << x;
  EXPECT_EQ(logarithm(1.0), 0.0);
  EXPECT_EQ(logarithm(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(logarithm(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace dtrain::ops::cpu
