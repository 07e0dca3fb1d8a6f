#include "watch/tensor_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dtrain::watch {
namespace {

TEST(TensorStats, OfTheFiniteElements) {
  const std::vector<float> values{1, -3, NAN, 5, std::numeric_limits<float>::infinity(), 1};
  const TensorStats s = stats_of(values);
  EXPECT_EQ(s.not_finite, 2);
  EXPECT_EQ(s.min, -3);
  EXPECT_EQ(s.max, 5);
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.norm, 6);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(8.0));
}

TEST(TensorStats, OfNothing) {
  EXPECT_EQ(stats_of({}).norm, 0);
  EXPECT_EQ(stats_of(std::vector<float>{NAN}).not_finite, 1);
}

TEST(TensorStats, DeviationsOfLargeNumbersAreNotLost) {
  EXPECT_DOUBLE_EQ(stats_of(std::vector<float>{16777215, 16777216}).std, 0.5);
}

}  // namespace
}  // namespace dtrain::watch
