#include "watch/glob.h"

#include <gtest/gtest.h>

namespace dtrain::watch {
namespace {

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("conv*.weight", "conv1.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.weight", "a.b.weight"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_TRUE(matches("a*b*c", "a.b.b.c"));
  EXPECT_TRUE(matches("a*", "a*"));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_FALSE(matches("conv*", "my.conv"));
  EXPECT_FALSE(matches("a*b", "a.b.c"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(is_pattern("a*"));
  EXPECT_FALSE(is_pattern("layers.0.weight"));
}

}  // namespace
}  // namespace dtrain::watch
