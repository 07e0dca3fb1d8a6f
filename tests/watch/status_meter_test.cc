#include "watch/status_meter.h"

#include <gtest/gtest.h>

namespace dtrain::watch {
namespace {

TEST(StatusMeter, RatesAreOverTheTimeSinceTheLastOne) {
  StatusMeter meter;
  EXPECT_TRUE(meter.due(5));
  TaskCounters counters{
      .step = 3, .samples = 100, .waited = kSecond, .sent = 1000, .received = 10, .queued = 7, .resident = 8};
  EXPECT_EQ(meter.measure(counters, 0).samples_per_s, 0);
  EXPECT_FALSE(meter.due(kSecond - 1));
  EXPECT_TRUE(meter.due(kSecond));
  counters.samples = 300;
  counters.sent = 5000;
  counters.waited = 2 * kSecond;
  const wire::TaskStatus s = meter.measure(counters, 2 * kSecond);
  EXPECT_EQ(s.step, 3);
  EXPECT_EQ(s.samples_per_s, 100);
  EXPECT_EQ(s.sent, 5000u);
  EXPECT_EQ(s.sent_per_s, 2000);
  EXPECT_EQ(s.received_per_s, 0);
  EXPECT_EQ(s.waited, 0.5);
  EXPECT_EQ(s.queued, 7u);
  EXPECT_EQ(s.resident, 8u);
}

}  // namespace
}  // namespace dtrain::watch
