#include "cluster/stragglers.h"

#include <gmock/gmock.h>

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StragglersTest : public testing::Test {
 protected:
  // A step in which each worker takes so many milliseconds; those who are late are found at a tick after `look`.
  std::vector<wire::Rank> step(const std::map<wire::Rank, int>& took, int look) {
    s_.opened(step_, now_);
    for (const auto& [worker, ms] : took)
      if (ms <= look) s_.done(worker, step_, 2, now_ + ms * kMillisecond);
    const auto late = s_.find_late(shares_, now_ + look * kMillisecond);
    for (const auto& [worker, ms] : took)
      if (ms > look) s_.done(worker, step_, 2, now_ + ms * kMillisecond);
    ++step_;
    now_ += kSecond;
    return late;
  }

  const std::map<wire::Rank, uint32_t> shares_{{2, 2}, {3, 2}, {4, 2}};
  Stragglers s_;
  int64_t step_ = 0;
  Instant now_ = kSecond;
};

TEST_F(StragglersTest, LateIsWhoTakesTwiceTheMedianWhileOthersAreIdle) {
  EXPECT_THAT(step({{2, 100}, {3, 110}, {4, 120}}, 500), IsEmpty());
  EXPECT_THAT(step({{2, 100}, {3, 110}, {4, 300}}, 230), IsEmpty()) << "that is within what timers cost";
  EXPECT_THAT(step({{2, 100}, {3, 110}, {4, 900}}, 241), ElementsAre(4));
  EXPECT_TRUE(s_.suspected(4));
  EXPECT_TRUE(s_.any());
  EXPECT_FALSE(s_.suspected(2));
  EXPECT_THAT(step({{2, 100}, {3, 110}, {4, 900}}, 500), IsEmpty()) << "known already";
}

TEST_F(StragglersTest, WithNobodyIdleNobodyIsLate) {
  step({{2, 100}, {3, 100}, {4, 100}}, 500);
  EXPECT_THAT(step({{2, 900}, {3, 900}, {4, 900}}, 500), IsEmpty());
  EXPECT_THAT(step({{2, 100}, {3, 900}, {4, 900}}, 500), ElementsAre(3, 4));
}

TEST_F(StragglersTest, NothingIsKnownBeforeTheFirstShare) {
  s_.opened(0, now_);
  EXPECT_THAT(s_.find_late(shares_, now_ + 100 * kSecond), IsEmpty());
  EXPECT_THAT(s_.find_late({{2, 2}}, now_ + 100 * kSecond), IsEmpty()) << "there is nobody to help";
}

// A worker whose share is empty is idle, and never late.
TEST_F(StragglersTest, AnEmptyShare) {
  s_.opened(0, now_);
  s_.done(2, 0, 2, now_ + 100 * kMillisecond);
  s_.opened(1, now_ + kSecond);
  EXPECT_THAT(s_.find_late({{2, 2}, {3, 0}}, now_ + 2 * kSecond), ElementsAre(2));
}

TEST_F(StragglersTest, InTimeOftenEnoughIsNoSuspectAnyMore) {
  step({{2, 100}, {3, 100}, {4, 100}}, 500);
  step({{2, 100}, {3, 100}, {4, 900}}, 500);
  ASSERT_TRUE(s_.suspected(4));
  const auto closes = [&](bool in_time) {
    s_.opened(step_, now_);
    if (in_time) s_.done(4, step_, 2, now_);
    ++step_;
    return s_.closed(shares_);
  };
  for (int i = 1; i < Stragglers::kInTime; ++i) EXPECT_FALSE(closes(true));
  EXPECT_FALSE(closes(false));
  for (int i = 1; i < Stragglers::kInTime; ++i) EXPECT_FALSE(closes(true));
  EXPECT_TRUE(closes(true));
  EXPECT_FALSE(s_.any());
}

TEST_F(StragglersTest, HalfAShareIsNotInTime) {
  step({{2, 100}, {3, 100}, {4, 100}}, 500);
  step({{2, 100}, {3, 100}, {4, 900}}, 500);
  for (int i = 0; i < 2 * Stragglers::kInTime; ++i) {
    s_.opened(step_, now_);
    s_.done(4, step_++, 1, now_);
    EXPECT_FALSE(s_.closed(shares_));
  }
}

TEST_F(StragglersTest, WhoIsLostIsForgotten) {
  step({{2, 100}, {3, 100}, {4, 100}}, 500);
  step({{2, 100}, {3, 100}, {4, 900}}, 500);
  s_.forget(4);
  EXPECT_FALSE(s_.any());
}

}  // namespace
}  // namespace dtrain::cluster
