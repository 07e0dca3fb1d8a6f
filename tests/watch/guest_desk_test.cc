#include "watch/guest_desk.h"

#include <gmock/gmock.h>

#include "tests/watch/small_cluster.h"

namespace dtrain::watch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kLinear = 1;  // two chunks
const std::vector<int64_t> kEverything{0, 1, 2, 3};

TEST(GuestDesk, TellsWhatTheRunIs) {
  SmallCluster run(2);
  ASSERT_TRUE(run.guest(1, wire::AskRun{}));
  FakeTransport& t = run.all[1]->transport;
  EXPECT_THAT(t.take<wire::RunInfo>(kGuest), ElementsAre(wire::RunInfo{"small", 1, 2, 4}));
  EXPECT_EQ(t.take<wire::TaskPlace>(kGuest).size(), 2u);
  const auto tensors = t.take<wire::NamedTensor>(kGuest);
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[2], (wire::NamedTensor{2, "norm.running_mean", {64}, 2}));
}

TEST(GuestDesk, TheVersionThatAServerStandsAtIsThereInTheMiddleOfAStep) {
  SmallCluster run(1);
  run.step(0);
  const std::vector<float> before = run.truth(kLinear);
  run.rates(2);
  run.step_block(0, 1);
  run.step_block(1, 1);  // block 1, of the tensor, is at version 2 already, others are not
  ASSERT_TRUE(run.guest(0, wire::AskStanding{5}));
  EXPECT_THAT(run.all[0]->transport.take<wire::Standing>(kGuest), ElementsAre(wire::Standing{5, 1, 1}));
  ASSERT_TRUE(run.guest(0, wire::Read{6, false, 1, kEverything}));
  EXPECT_TRUE(ps::same_bits(run.received(0, kLinear, 1), before));
  EXPECT_THAT(run.all[0]->transport.take<wire::ReadDone>(kGuest),
              ElementsAre(wire::ReadDone{6, false, 500 + 68000 + 64 + 17000, 1, 1}));
}

TEST(GuestDesk, AVersionAheadIsSentWhenAllBlocksHaveIt) {
  SmallCluster run(1);
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 2, kEverything}));
  run.step(0);
  run.rates(3);
  for (uint32_t b = 0; b + 1 < run.table.blocks().size(); ++b) run.step_block(b, 1);
  EXPECT_TRUE(run.all[0]->transport.take<wire::ReadDone>(kGuest).empty());
  run.step_block(static_cast<uint32_t>(run.table.blocks().size()) - 1, 1);
  run.oracle.step(1, ps::rate_of(1));
  const std::vector<float> truth = run.truth(kLinear);
  run.step_block(0, 2);  // the run goes on; what is held stays as it was
  run.step_block(1, 2);
  EXPECT_TRUE(ps::same_bits(run.received(0, kLinear, 2), truth));
  EXPECT_EQ(run.all[0]->transport.take<wire::ReadDone>(kGuest).size(), 1u);
}

TEST(GuestDesk, WhatIsSentIsNotOverwrittenByLaterSteps) {
  SmallCluster run(1);
  run.step(0);
  const std::vector<float> truth = run.truth(kLinear);
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 1, {kLinear}}));
  for (int64_t s = 1; s < 6; ++s) run.step(s);
  EXPECT_TRUE(ps::same_bits(run.received(0, kLinear, 1), truth));
  EXPECT_FALSE(ps::same_bits(run.truth(kLinear), truth));
}

TEST(GuestDesk, AVersionThatIsGoneIsSaidToBe) {
  SmallCluster run(1);
  for (int64_t s = 0; s < 4; ++s) run.step(s);
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 2, kEverything}));
  EXPECT_THAT(run.all[0]->transport.take<wire::ReadDone>(kGuest), ElementsAre(wire::ReadDone{1, true, 0, 2, 4}));
  EXPECT_TRUE(run.all[0]->transport.take<wire::TensorChunk>(kGuest).empty());
}

TEST(GuestDesk, TheGradientOfAStepIsTheMeanOverItsMicroBatches) {
  SmallCluster run(1);
  ASSERT_TRUE(run.guest(0, wire::Read{1, true, 1, {0, kLinear}}));
  run.step(0);
  EXPECT_TRUE(run.all[0]->transport.take<wire::ReadDone>(kGuest).empty());
  run.step(1);
  EXPECT_THAT(run.all[0]->transport.take<wire::ReadDone>(kGuest), ElementsAre(wire::ReadDone{1, false, 68500, 1, 1}));
  std::vector<float> truth = run.facts.root(1, 1);
  for (float& x : truth) x /= SmallCluster::kMicroBatches;
  EXPECT_TRUE(ps::same_bits(run.received(0, kLinear, 1), truth));
  // Of a step that is under way some sums may have gone by.
  ASSERT_TRUE(run.guest(0, wire::Read{2, true, 2, {0}}));
  EXPECT_THAT(run.all[0]->transport.take<wire::ReadDone>(kGuest), ElementsAre(wire::ReadDone{2, true, 0, 2, 2}));
}

TEST(GuestDesk, ReadsThatHoldMoreThanOneVersionWaitForTheirTurn) {
  SmallCluster run(1);
  run.step(0);
  FakeTransport& t = run.all[0]->transport;
  t.slow = {kGuest};
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 1, kEverything}));
  EXPECT_EQ(t.take<wire::ReadDone>(kGuest).size(), 1u);
  ASSERT_TRUE(run.guest(0, wire::Read{2, false, 1, {kLinear}}, {}, kOtherGuest));
  EXPECT_TRUE(t.take<wire::ReadDone>(kOtherGuest).empty());
  t.queued[kGuest] = 0;
  run.all[0]->desk->on_tick(run.now);
  EXPECT_THAT(t.take<wire::ReadDone>(kOtherGuest), ElementsAre(wire::ReadDone{2, false, 68000, 1, 1}));
}

TEST(GuestDesk, AGuestThatDoesNotReadIsCutOff) {
  SmallCluster run(1);
  run.step(0);
  FakeTransport& t = run.all[0]->transport;
  t.slow = {kGuest};
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 1, kEverything}));
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 1, kEverything}, {}, kOtherGuest));
  for (int i = 0; i <= 12; ++i) {
    run.now += kSecond;
    run.all[0]->desk->on_tick(run.now);
  }
  EXPECT_THAT(t.cut[kGuest], HasSubstr("does not read"));
  EXPECT_FALSE(t.cut.contains(kOtherGuest));
  // When it is gone the other has its turn.
  run.all[0]->desk->on_lost(kGuest);
  EXPECT_EQ(t.take<wire::ReadDone>(kOtherGuest).size(), 1u);
}

TEST(GuestDesk, OneThatReadsSlowlyIsNot) {
  SmallCluster run(1);
  FakeTransport& t = run.all[0]->transport;
  t.slow = {kGuest};
  ASSERT_TRUE(run.guest(0, wire::Read{1, false, 0, kEverything}));
  for (int i = 0; i < 40; ++i) {
    run.now += kSecond;
    t.queued[kGuest] -= 1000;
    run.all[0]->desk->on_tick(run.now);
  }
  EXPECT_TRUE(t.cut.empty());
}

TEST(GuestDesk, WhatBreaksTheProtocolIsAnError) {
  SmallCluster run(1);
  auto error = [&](const wire::Message& m, ByteSpan payload = {}) {
    const Status s = run.guest(0, m, payload);
    return s ? "" : s.error().message;
  };
  EXPECT_THAT(error(wire::Read{1, false, 1, {4}}), HasSubstr("tensor 4, which there is not"));
  EXPECT_THAT(error(wire::Read{1, false, 1, {-1}}), HasSubstr("which there is not"));
  EXPECT_THAT(error(wire::Read{1, false, 1, {1, 1}}), HasSubstr("twice"));
  EXPECT_THAT(error(wire::Read{1, false, -2, {1}}), HasSubstr("version -2"));
  EXPECT_THAT(error(wire::Read{1, true, 3, {2}}), HasSubstr("which has none"));
  EXPECT_THAT(error(wire::Rates{0, {1.0}}), HasSubstr("Rates, which is not for this task"));
  EXPECT_THAT(error(wire::NodeChunk{0, 0, 0, 2, 0}), HasSubstr("not for this task"));
  run.all[0]->transport.queued[kGuest] = 5u << 20;
  EXPECT_THAT(error(wire::AskRun{}), HasSubstr("without reading the answers"));
}

TEST(GuestDesk, SaysHowTasksAreDoing) {
  SmallCluster run(2);
  run.position.step = 9;
  wire::TaskStatus status{.step = 7, .samples_per_s = 10};
  ASSERT_TRUE(run.all[0]->desk->on_message(1, status, {}, run.now));
  run.position.step = 40;
  run.now += 2 * kSecond;
  ASSERT_TRUE(run.guest(0, wire::AskStatus{3}));
  FakeTransport& t = run.all[0]->transport;
  EXPECT_THAT(t.take<wire::StatusRow>(kGuest),
              ElementsAre(wire::StatusRow{3, 0, -1, -1, {}}, wire::StatusRow{3, 1, 2.0, 2, status}));
  EXPECT_THAT(t.take<wire::StatusEnd>(kGuest), ElementsAre(wire::StatusEnd{3, 40, 100, "training"}));
  run.all[0]->desk->on_lost(1);
  ASSERT_TRUE(run.guest(0, wire::AskStatus{4}));
  EXPECT_EQ(t.take<wire::StatusRow>(kGuest).at(1).age, -1);
  EXPECT_FALSE(run.guest(1, wire::AskStatus{5}));  // only the coordinator knows
}

}  // namespace
}  // namespace dtrain::watch
