// The reference's attention on numbers that can be followed by hand.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

// Two positions of one number: queries 1 and 2, keys 0 and ½·ln 3, values 10 and 20.
Value two_positions() { return floats({1, 2, 3}, {1.0f, 0.0f, 10.0f, 2.0f, 0.5f * std::log(3.0f), 20.0f}); }

TEST(ReferenceAttention, Causal) {
  const auto out = run_reference("attention", Attention{1, true}, {two_positions()}, {f32({1, 2, 1}), f32({1, 1, 4})});
  EXPECT_FLOAT_EQ(out[0].data()[0], 10.0f);  // sees itself alone
  EXPECT_FLOAT_EQ(out[0].data()[1], 17.5f);  // scores 0 and ln 3: a quarter and three quarters
  EXPECT_FLOAT_EQ(out[1].data()[0], 0.0f);
  EXPECT_FLOAT_EQ(out[1].data()[1], std::log(3.0f));
  EXPECT_FLOAT_EQ(out[1].data()[2], 1.0f);
  EXPECT_FLOAT_EQ(out[1].data()[3], 0.75f);
}

TEST(ReferenceAttention, OfAllPositions) {
  const auto out = run_reference("attention", Attention{1, false}, {two_positions()}, {f32({1, 2, 1})});
  const float share = 1.0f / (1.0f + std::sqrt(3.0f));  // of the first value, by scores 0 and ½·ln 3
  EXPECT_FLOAT_EQ(out[0].data()[0], 10.0f * share + 20.0f * (1.0f - share));
  EXPECT_FLOAT_EQ(out[0].data()[1], 17.5f);
}

// Two heads are two attentions of half the width.
TEST(ReferenceAttention, HeadsAreApart) {
  const Value qkv = normal({2, 3, 12}, 1);
  const auto both = run_reference("attention", Attention{2, false}, {qkv}, {f32({2, 3, 4})});
  for (int64_t h = 0; h < 2; ++h) {
    Value half = empty_value({2, 3, 6});
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t d = 0; d < 2; ++d)
          half.data()[row * 6 + part * 2 + d] = qkv.data()[row * 12 + part * 4 + h * 2 + d];
    const auto one = run_reference("attention", Attention{1, false}, {half}, {f32({2, 3, 2})});
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t d = 0; d < 2; ++d) EXPECT_FLOAT_EQ(both[0].data()[row * 4 + h * 2 + d], one[0].data()[row * 2 + d]);
  }
}

}  // namespace
}  // namespace dtrain::ops::test
