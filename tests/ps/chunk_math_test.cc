#include "ps/chunk_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace dtrain::ps {
namespace {

std::vector<float> ramp(size_t n, float by) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = by * static_cast<float>(i % 101) - 7.3f;
  return v;
}

TEST(ChunkMath, AddsAndDivides) {
  for (size_t n : {0, 1, 15, 16, 17, 1000, 65536}) {
    std::vector<float> a = ramp(n, 0.3f), out(n), quotient(n);
    const std::vector<float> b = ramp(n, -1.7f);
    add(out, a, b);
    divide(quotient, a, 3.0f);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[i], a[i] + b[i]);
      ASSERT_EQ(quotient[i], a[i] / 3.0f);
    }
    add(a, b);
    EXPECT_EQ(a, out);
  }
}

TEST(ChunkMath, FindsWhatIsNotFiniteAnywhere) {
  for (size_t n : {1, 33, 100}) {
    std::vector<float> v = ramp(n, 1e36f);
    EXPECT_TRUE(all_finite(v));
    for (size_t i = 0; i < n; ++i) {
      for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), NAN}) {
        const float good = std::exchange(v[i], bad);
        EXPECT_FALSE(all_finite(v));
        EXPECT_FALSE(std::isfinite(sum_of_squares(v)));
        v[i] = good;
      }
    }
  }
  EXPECT_TRUE(all_finite({}));
}

TEST(ChunkMath, SquaresAreSummedInSixteenLanes) {
  for (size_t n : {0, 1, 16, 31, 1000}) {
    const std::vector<float> v = ramp(n, 0.37f);
    double lanes[16] = {};
    for (size_t i = 0; i < n; ++i) lanes[i % 16] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
    for (size_t width = 8; width > 0; width /= 2)
      for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    EXPECT_EQ(sum_of_squares(v), lanes[0]);
  }
}

}  // namespace
}  // namespace dtrain::ps
