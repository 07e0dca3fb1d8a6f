#include "cluster/staleness.h"

#include <gtest/gtest.h>

namespace dtrain::cluster {
namespace {

TEST(StalenessTest, MeanAndWhatNinetyNineOfAHundredStayBelow) {
  Staleness s;
  EXPECT_EQ(s.report().mean, 0);
  for (int i = 0; i < 99; ++i) s.add(1, false);
  s.add(7, true);
  EXPECT_DOUBLE_EQ(s.report().mean, 1.06);
  EXPECT_EQ(s.report().p99, 1u);
  EXPECT_EQ(s.report().pushes, 100u);
  EXPECT_EQ(s.report().dropped, 1u);
  s.add(7, false);
  EXPECT_EQ(s.report().p99, 7u) << "99 of 101 are not 99 %";
}

TEST(StalenessTest, OneAlone) {
  Staleness s;
  s.add(3, false);
  EXPECT_EQ(s.report().p99, 3u);
  s.add_dropped();
  EXPECT_EQ(s.report().dropped, 1u);
  EXPECT_EQ(s.report().pushes, 1u);
}

TEST(StalenessTest, AnyLagHasItsPlace) {
  Staleness s;
  s.add(UINT32_MAX, false);
  EXPECT_EQ(s.report().p99, Staleness::kMost);
  EXPECT_EQ(s.report().mean, 4294967295.0);
}

}  // namespace
}  // namespace dtrain::cluster
