#include "node/step_timer.h"

#include <gtest/gtest.h>

namespace dtrain::node {
namespace {

TEST(StepTimer, LeavesTheFirstStepsOut) {
  ManualClock clock;
  StepTimer timer(clock, 1);
  timer.on_begin(0, 1);
  for (int64_t step = 0; step < 3; ++step) {
    clock.advance((10 + step) * kMillisecond);
    timer.on_step({.step = step});
  }
  EXPECT_EQ(timer.steps(), (std::vector<Nanoseconds>{11 * kMillisecond, 12 * kMillisecond}));
}

// Of local steps only rounds are reported.
TEST(StepTimer, AStepOfARoundIsItsPartOfTheTime) {
  ManualClock clock;
  StepTimer timer(clock, 2);
  timer.on_begin(0, 1);
  for (const int64_t last : {3, 7}) {
    clock.advance((last + 1) * kMillisecond);
    timer.on_step({.step = last});
  }
  EXPECT_EQ(timer.steps(), std::vector<Nanoseconds>(4, 2 * kMillisecond));
}

}  // namespace
}  // namespace dtrain::node
