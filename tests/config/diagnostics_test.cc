#include "config/diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dtrain::config {
namespace {

TEST(Diagnostics, NothingWrongIsOk) {
  Diagnostics d;
  EXPECT_TRUE(d.ok());
  EXPECT_TRUE(d.status());
}

TEST(Diagnostics, AllErrorsInOneInTheOrderOfTheFile) {
  Diagnostics d;
  d.error(Position("run.toml", 12, 3), "second");
  d.error(Position("net.toml", 1, 1), "other file");
  d.error(Position("run.toml", 2, 9), "first");
  d.error(Position("--set a.b", 0, 0), "flag");
  d.error(Position(), "nowhere");
  EXPECT_EQ(d.status().error().message,
            "run.toml:2:9: error: first\n"
            "run.toml:12:3: error: second\n"
            "net.toml:1:1: error: other file\n"
            "--set a.b: error: flag\n"
            "error: nowhere");
}

TEST(Diagnostics, TheSameErrorAtTheSamePlaceIsKeptOnce) {
  Diagnostics d;
  d.error(Position("a", 1, 1), "x");
  d.error(Position("a", 1, 1), "x");
  d.error(Position("a", 1, 2), "x");
  EXPECT_EQ(d.errors().size(), 2u);
}

TEST(Diagnostics, KeepsALimitedNumber) {
  Diagnostics d(2);
  for (int i = 1; i <= 5; ++i) d.error(Position("a", i, 1), "x");
  EXPECT_TRUE(d.full());
  EXPECT_EQ(d.status().error().message, "a:1:1: error: x\na:2:1: error: x\nand 3 more errors");
}

TEST(Diagnostics, UsageIsTheStrongestExitCode) {
  Diagnostics d;
  d.error(Position("a", 1, 1), "x", ExitCode::kData);
  EXPECT_EQ(d.status().error().code, ExitCode::kData);
  d.error(Position("a", 2, 1), "y");
  EXPECT_EQ(d.status().error().code, ExitCode::kUsage);
}

}  // namespace
}  // namespace dtrain::config
