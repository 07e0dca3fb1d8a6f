#include "worker/async_protocol.h"

#include <limits>

#include "fixture.h"

namespace dtrain::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::StepKind;

class AsyncProtocolTest : public ProtocolFixture {};

TEST_F(AsyncProtocolTest, FetchesTheNewestAndComputesWhatItIsLeased) {
  make("'async'");
  EXPECT_EQ(protocol_->step(), -1);
  EXPECT_FALSE(protocol_->next_work());
  assign(6, 7);  // micro-batch 6 of the run
  EXPECT_THAT(sent_.take<wire::Pull>(), ElementsAre(wire::Pull{0, 0}, wire::Pull{1, 0}, wire::Pull{2, 0}));
  EXPECT_EQ(protocol_->step(), 1);
  EXPECT_EQ(protocol_->next_work(), train(1, {2, 3}));
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 1));
  deliver(kSmall, 31, 1.5F);
  ASSERT_TRUE(chunk(kLarge, 17, 1, 2.5F));
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 1));
  ASSERT_TRUE(chunk(kLarge, 17, 0, 2.5F));
  EXPECT_TRUE(protocol_->parameter_ready(kLarge, 1));
  deliver(kStill, 0);
  EXPECT_TRUE(ready(1));
  EXPECT_THAT(memory_[0], testing::Each(1.5F));
  EXPECT_TRUE(large_is(2.5F));
}

// What is pushed says which version of each block it was made from, and which micro-batch of the run it is of.
TEST_F(AsyncProtocolTest, PushesWithTheVersionsThatItRead) {
  make("'async'");
  assign(6, 7);
  deliver(kSmall, 31);
  deliver(kLarge, 17);
  deliver(kStill, 0);
  EXPECT_EQ(compute(), train(1, {2, 3}));
  EXPECT_THAT(sent_.take<wire::NodeChunk>(), ElementsAre(wire::NodeChunk{31, kSmall, 6, 7, 0}));
  EXPECT_THAT(sent_.take<wire::Offer>(), ElementsAre(wire::Offer{17, kLarge, 6, 7}));
  say(owner(kLarge), wire::Take{17, kLarge, 6, 7, 0b11});
  EXPECT_THAT(sent_.take<wire::NodeChunk>(), SizeIs(2));
}

TEST_F(AsyncProtocolTest, SaysHowFarBehindAPushWasWhenAllOfItIsTaken) {
  make("'async'");
  assign(0, 1);
  deliver(kSmall, 10);
  deliver(kLarge, 10);
  deliver(kStill, 0);
  const Work work = compute(0.25);
  absorb(kSmall, 10, 0, 11);  // the next after what was read: not behind at all
  EXPECT_THAT(sent_.take<wire::MetricNode>(), IsEmpty());
  EXPECT_EQ(protocol_->unanswered(work), 1u);
  absorb(kLarge, 10, 0, 15);  // four others came before
  EXPECT_EQ(protocol_->unanswered(work), 0u);
  EXPECT_THAT(sent_.take<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 0, 0, 1, {0.25, 2, 1}, 4, false}));
}

TEST_F(AsyncProtocolTest, SaysWhatWasDropped) {
  make("{ type = 'async', most_lag = 3 }");
  assign(0, 1);
  deliver_all(10);
  compute();
  absorb(kLarge, 10, 0, 14, true);
  absorb(kSmall, 10, 0, 11);
  EXPECT_THAT(sent_.take<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 0, 0, 1, {1, 2, 1}, 4, true}));
}

// So that what it computes from next has its own push in it.
TEST_F(AsyncProtocolTest, FetchesAgainWhenItsPushIsTaken) {
  make("'async'");
  assign(0, 1);
  assign(1, 2);
  deliver_all(5);
  compute();
  sent_.take<wire::Pull>();
  EXPECT_FALSE(protocol_->next_work());
  absorb(kSmall, 5, 0, 6);
  EXPECT_THAT(sent_.take<wire::Pull>(), IsEmpty());
  absorb(kLarge, 5, 0, 6);
  EXPECT_THAT(sent_.take<wire::Pull>(), ElementsAre(wire::Pull{kSmall, 0}, wire::Pull{kLarge, 0}))
      << "a frozen block is there";
  EXPECT_EQ(protocol_->next_work(), train(0, {1, 2}));
  EXPECT_FALSE(ready(0));
  deliver(kSmall, 6);
  deliver(kLarge, 6);
  EXPECT_TRUE(ready(0));
}

// Answers may come before the work is said to be finished.
TEST_F(AsyncProtocolTest, APushThatIsTakenBeforeItsWorkEnds) {
  make("'async'");
  assign(0, 1);
  deliver_all(5);
  const Work work = *protocol_->next_work();
  protocol_->started(work);
  protocol_->metrics(work, {1, 2, 1});
  auto values = std::make_shared<std::vector<float>>(10);
  protocol_->gradient(work, {kSmall, 0, 10, values->data()}, values);
  absorb(kSmall, 5, 0, 9);
  EXPECT_THAT(sent_.take<wire::MetricNode>(), IsEmpty());
  protocol_->finished(work);
  EXPECT_THAT(sent_.take<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 0, 0, 1, {1, 2, 1}, 3, false}));
}

TEST_F(AsyncProtocolTest, SeveralMicroBatchesAreOnePush) {
  make("{ type = 'async', push_every = 3 }");
  assign(3, 6);
  deliver_all(5);
  EXPECT_EQ(compute(1), train(0, {3, 4}, false));
  sent_.take<wire::Pull>();
  deliver_all(5);
  EXPECT_EQ(compute(2), train(1, {0, 1}, false));
  EXPECT_THAT(sent_.take<wire::Pull>(), ElementsAre(wire::Pull{kSmall, 0}, wire::Pull{kLarge, 0}));
  deliver_all(6);
  EXPECT_EQ(compute(3), train(1, {1, 2}));
  EXPECT_THAT(sent_.take<wire::NodeChunk>(), ElementsAre(wire::NodeChunk{6, kSmall, 5, 6, 0}));
  absorb(kSmall, 6, 5, 9);
  EXPECT_THAT(sent_.take<wire::MetricNode>(), IsEmpty());
  absorb(kLarge, 6, 5, 7);
  EXPECT_THAT(sent_.take<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 0, 3, 4, {1, 2, 1}, 2, false},
                          wire::MetricNode{StepKind::kTrain, 1, 0, 1, {2, 2, 1}, 2, false},
                          wire::MetricNode{StepKind::kTrain, 1, 1, 2, {3, 2, 1}, 2, false}));
}

TEST_F(AsyncProtocolTest, BetweenFetchesItGoesOnWithWhatItHas) {
  make("{ type = 'async', fetch_every = 2 }");
  assign(0, 1);
  assign(1, 2);
  assign(2, 3);
  EXPECT_FALSE(protocol_->next_work()) << "it descends by itself: not without the rate";
  say(kCoordinator, wire::WorkerRates{0, {0.125}});
  deliver_all(5);
  EXPECT_EQ(compute(), train(0, {0, 1}));
  EXPECT_EQ(protocol_->rate(0), 0.125);
  sent_.take<wire::Pull>();
  EXPECT_TRUE(ready(0)) << "the push before is still under way";
  EXPECT_EQ(compute(), train(0, {1, 2}));
  EXPECT_THAT(sent_.take<wire::Pull>(), IsEmpty());
  EXPECT_FALSE(protocol_->next_work());
  for (uint32_t k : {0U, 1U})
    for (uint32_t b : {kSmall, kLarge}) absorb(b, 5, k, 6 + k);
  EXPECT_THAT(sent_.take<wire::Pull>(), SizeIs(2));
  EXPECT_EQ(protocol_->next_work(), train(0, {2, 3}));
}

// A lost worker's lease may be of an earlier step than what this one is at: its rate is kept for it.
TEST_F(AsyncProtocolTest, ALeaseOfAnEarlierStepFindsItsRate) {
  make("{ type = 'async', fetch_every = 4 }");
  say(kCoordinator, wire::WorkerRates{5, {0.5}});
  assign(20, 21);
  say(kCoordinator, wire::WorkerRates{2, {0.25}});
  assign(8, 9);
  say(kCoordinator, wire::WorkerRates{6, {0.125}});
  assign(24, 25);
  deliver_all(5);
  EXPECT_EQ(compute(), train(5, {0, 1}));
  EXPECT_EQ(protocol_->next_work(), train(2, {0, 1}));
  EXPECT_EQ(protocol_->rate(2), 0.25);
  EXPECT_EQ(compute(), train(2, {0, 1}));
  EXPECT_EQ(compute(), train(6, {0, 1}));
}

TEST_F(AsyncProtocolTest, EvaluatesWhatTheServersHaveAndGoesOn) {
  make("{ type = 'async', fetch_every = 10 }");
  say(kCoordinator, wire::WorkerRates{0, {0.5}});
  assign(0, 1);
  deliver_all(5);
  compute();
  for (uint32_t b : {kSmall, kLarge}) absorb(b, 5, 0, 6);
  sent_.take<wire::Pull>();
  sent_.take<wire::MetricNode>();
  assign(1, 2, 0, 2, StepKind::kEval);
  EXPECT_THAT(sent_.take<wire::Pull>(), SizeIs(2));
  EXPECT_EQ(protocol_->next_work(), (Work{StepKind::kEval, 1, {0, 2}}));
  EXPECT_FALSE(ready(1));
  // Somebody was lost: other nodes.
  assign(1, 2, 1, 2, StepKind::kEval);
  EXPECT_THAT(sent_.take<wire::Pull>(), SizeIs(2));
  deliver(kSmall, 8);
  deliver(kLarge, 8);
  EXPECT_TRUE(ready(1));
  EXPECT_EQ(compute(), (Work{StepKind::kEval, 1, {1, 2}}));
  EXPECT_THAT(sent_.take<wire::MetricNode>(), ElementsAre(wire::MetricNode{StepKind::kEval, 1, 1, 2, {1, 2, 1}}));
  EXPECT_FALSE(protocol_->next_work());
  say(kCoordinator, wire::WorkerRates{1, {0.5}});
  assign(4, 5);
  EXPECT_THAT(sent_.take<wire::Pull>(), SizeIs(2)) << "its own copy went another way before";
  EXPECT_EQ(protocol_->next_work(), train(1, {0, 1}));
}

// Of two fetches under way the first answer may be half there when the second is asked for.
TEST_F(AsyncProtocolTest, TheNewerAnswerOfTwoCounts) {
  make("'async'");
  assign(0, 1, 0, 1, StepKind::kEval);
  ASSERT_TRUE(chunk(kLarge, 5, 0, 1));
  assign(0, 1, 0, 2, StepKind::kEval);
  ASSERT_TRUE(chunk(kLarge, 5, 1, 1));
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 0));
  ASSERT_TRUE(chunk(kLarge, 6, 0, 2));
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 0));
  ASSERT_TRUE(chunk(kLarge, 6, 1, 2));
  EXPECT_TRUE(protocol_->parameter_ready(kLarge, 0));
  EXPECT_TRUE(large_is(2));
  ASSERT_TRUE(chunk(kLarge, 7, 0, 3));
  EXPECT_EQ(memory_[1][0], 2) << "it may be being read";
}

TEST_F(AsyncProtocolTest, PeersThatBreakTheProtocol) {
  make("'async'");
  const auto refused = [&](wire::Rank from, const wire::Message& m, std::vector<float> payload = {}) {
    return !protocol_->on_message(from, m, as_byte_span(std::span<const float>(payload)));
  };
  const uint32_t other = 1 - owner(kLarge);
  EXPECT_TRUE(refused(1, wire::Assign{.generation = 1, .from = 0, .until = 1}));
  EXPECT_TRUE(refused(0, wire::Assign{.generation = 1, .from = 1, .until = 1}));
  EXPECT_TRUE(refused(0, wire::Assign{.generation = 1, .from = -1, .until = 1}));
  EXPECT_TRUE(refused(0, wire::Assign{.generation = 1, .kind = StepKind::kEval, .from = 0, .until = 1, .last = 3}));
  EXPECT_TRUE(refused(0, wire::WorkerRates{-1, {1}}));
  EXPECT_TRUE(refused(1, wire::WorkerRates{0, {1}}));
  EXPECT_TRUE(refused(0, wire::WorkerRates{0, {std::numeric_limits<double>::infinity()}}));
  EXPECT_TRUE(refused(owner(kSmall), wire::ParameterChunk{.block = kSmall, .version = 0, .chunk = 0}, {1, 2}));
  EXPECT_TRUE(refused(owner(kSmall), wire::ParameterChunk{.block = kSmall, .version = 0, .chunk = 1}, {1}));
  EXPECT_TRUE(refused(other, wire::ParameterChunk{.block = kLarge, .version = 0, .chunk = 0}));
  EXPECT_TRUE(refused(0, wire::ParameterChunk{.block = 9, .version = 0, .chunk = 0}));
  EXPECT_TRUE(refused(owner(kLarge), wire::Take{0, kLarge, 0, 1, 0b100}));
  EXPECT_TRUE(refused(other, wire::Take{0, kLarge, 0, 1, 1}));
  EXPECT_TRUE(refused(0, wire::Absorbed{0, 9, 0, 1, 1}));
  EXPECT_TRUE(refused(other, wire::Absorbed{0, kLarge, 0, 1, 1}));
  EXPECT_TRUE(refused(0, wire::Gone{0, 0, 1}));
  EXPECT_FALSE(refused(owner(kLarge), wire::Take{0, kLarge, 0, 1, 1})) << "of a push that is answered already";
  EXPECT_FALSE(refused(owner(kLarge), wire::Absorbed{0, kLarge, 0, 1, 1}));
}

}  // namespace
}  // namespace dtrain::worker
