// SyncProtocol in the modes that are not synchronous: which versions it is content with, what it computes at a time,
// and where it goes from there.
#include "fixture.h"
#include "worker/sync_protocol.h"

namespace dtrain::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using wire::StepKind;

class SyncModesTest : public ProtocolFixture {
 protected:
  // The blocks that were pulled, and which version at least.
  std::vector<std::pair<uint32_t, int64_t>> pulled() {
    std::vector<std::pair<uint32_t, int64_t>> out;
    for (const wire::Pull& m : sent_.take<wire::Pull>()) out.emplace_back(m.block, m.version);
    return out;
  }
  void absorb_all(const Work& work, int64_t version) {
    for (uint32_t b : {kSmall, kLarge})
      say(owner(b), wire::Absorbed{work.step, b, work.node.first, work.node.last, version, false});
  }
};

// --- stale

TEST_F(SyncModesTest, AnOlderVersionWillDoWhenTheWorkerHasWaitedLongEnough) {
  make("{ type = 'stale', bound = 2 }");
  assign(5, 9, 0, 4);
  EXPECT_THAT(pulled(), ElementsAre(Pair(0, 5), Pair(1, 5), Pair(2, 5)));
  deliver(kSmall, 5);
  deliver(kStill, 5);
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 5));
  protocol_->hurry();
  EXPECT_THAT(pulled(), ElementsAre(Pair(kLarge, 3)));
  deliver(kLarge, 4, 7);
  EXPECT_TRUE(ready(5));
  EXPECT_TRUE(large_is(7));
  const Work work = compute();
  EXPECT_EQ(work, train(5, {0, 4}));
  EXPECT_THAT(sent_.take<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 5, 0, 4, {1, 2, 1}, 1, false}));
  EXPECT_THAT(sent_.take<wire::NodeChunk>(), ElementsAre(wire::NodeChunk{5, kSmall, 0, 4, 0}));
  EXPECT_THAT(pulled(), ElementsAre(Pair(kSmall, 6), Pair(kLarge, 6)));
}

TEST_F(SyncModesTest, TooOldIsTooOld) {
  make("{ type = 'stale', bound = 1 }");
  assign(5, 9, 0, 4);
  protocol_->hurry();
  deliver_all(3, 1);
  EXPECT_FALSE(ready(5));
  EXPECT_TRUE(large_is(0));
  deliver(kSmall, 4);
  deliver(kLarge, 4);
  deliver(kStill, 5);
  EXPECT_TRUE(ready(5));
}

// The answer to the first pull may come while that of the second is half there.
TEST_F(SyncModesTest, AFresherAnswerTakesThePlaceOfOneThatIsHalfThere) {
  make("{ type = 'stale', bound = 2 }");
  assign(5, 9, 0, 4);
  protocol_->hurry();
  ASSERT_TRUE(chunk(kLarge, 4, 0, 4));
  ASSERT_TRUE(chunk(kLarge, 5, 0, 5));
  ASSERT_TRUE(chunk(kLarge, 4, 1, 4));
  EXPECT_FALSE(protocol_->parameter_ready(kLarge, 5));
  ASSERT_TRUE(chunk(kLarge, 5, 1, 5));
  EXPECT_TRUE(protocol_->parameter_ready(kLarge, 5));
  EXPECT_TRUE(large_is(5));
}

TEST_F(SyncModesTest, WhatIsEvaluatedIsOneVersion) {
  make("{ type = 'stale', bound = 2 }");
  assign(5, 6, 0, 2, StepKind::kEval);
  sent_.take<wire::Pull>();
  protocol_->hurry();
  EXPECT_THAT(sent_.take<wire::Pull>(), IsEmpty());
  deliver(kSmall, 4);
  EXPECT_FALSE(protocol_->parameter_ready(kSmall, 5));
  deliver_all(5);
  EXPECT_TRUE(ready(5));
}

// Ahead, it is asked for an earlier step's share that somebody else was lost with.
TEST_F(SyncModesTest, TurnsBackToAStepThatNeedsItAgain) {
  make("{ type = 'stale', bound = 2 }");
  assign(5, 9, 0, 2);
  deliver_all(5);
  const Work five = compute();
  EXPECT_EQ(five, train(5, {0, 2}));
  protocol_->hurry();
  deliver(kSmall, 5);
  deliver(kLarge, 5);
  EXPECT_EQ(compute(), train(6, {0, 2}));
  assign(5, 9, 0, 4);
  EXPECT_EQ(protocol_->next_work(), train(5, {2, 4}));
  deliver(kSmall, 5);
  deliver(kLarge, 5);
  EXPECT_EQ(compute(), train(5, {2, 4}));
  EXPECT_EQ(protocol_->next_work(), train(6, {2, 4})) << "what it has done of step 6 it has done";
}

TEST_F(SyncModesTest, WithABoundOfNothingItIsSynchronous) {
  make("{ type = 'stale', bound = 0 }");
  assign(5, 9, 0, 4);
  sent_.take<wire::Pull>();
  protocol_->hurry();
  EXPECT_THAT(sent_.take<wire::Pull>(), IsEmpty());
  deliver_all(6);
  EXPECT_FALSE(ready(5)) << "a share that is computed again must not see a newer version";
  deliver_all(5);
  EXPECT_TRUE(ready(5));
}

// --- backup

TEST_F(SyncModesTest, WithBackupWorkersEachMicroBatchIsAPush) {
  make("{ type = 'backup', needed = 3 }");
  assign(0, 9, 0, 2);
  deliver_all(0);
  EXPECT_EQ(compute(), train(0, {0, 1}));
  EXPECT_EQ(compute(), train(0, {1, 2}));
  EXPECT_THAT(sent_.take<wire::NodeChunk>(),
              ElementsAre(wire::NodeChunk{0, kSmall, 0, 1, 0}, wire::NodeChunk{0, kSmall, 1, 2, 0}));
  assign(1, 2, 0, 2, StepKind::kEval);
  deliver_all(1);
  EXPECT_EQ(protocol_->next_work(), (Work{StepKind::kEval, 1, {0, 2}})) << "an evaluation's are sums";
}

// A worker that is two versions late goes to the newest: what lies between needs nobody, as long as nobody is lost.
TEST_F(SyncModesTest, ALateBackupWorkerGoesToTheNewestAndBackWhereItIsNeeded) {
  make("{ type = 'backup', needed = 3 }");
  assign(3, 20, 0, 1);
  sent_.take<wire::Pull>();
  say(owner(kLarge), wire::Gone{kLarge, 3, 7});
  EXPECT_EQ(protocol_->step(), 7);
  EXPECT_THAT(sent_.take<wire::Pull>(), SizeIs(2)) << "the frozen block is every version";
  // Somebody was lost with a push of step 6 that another server lacks.
  assign(3, 20, 0, 2);
  EXPECT_EQ(protocol_->step(), 6);
  EXPECT_THAT(pulled(), ElementsAre(Pair(kSmall, 6), Pair(kLarge, 6)));
}

TEST_F(SyncModesTest, ALateSynchronousWorkerGoesToTheStepThatIsUnderWay) {
  make("'sync'");
  assign(3, 20, 0, 1);
  say(owner(kLarge), wire::Gone{kLarge, 3, 7});
  EXPECT_EQ(protocol_->step(), 6);
}

// --- speculation

TEST_F(SyncModesTest, TheStragglersShareComesAfterTheOwn) {
  make("'sync'");
  const auto also = [&](int64_t from) {
    say(kCoordinator, wire::Assign{.generation = ++generation_,
                                   .from = from,
                                   .until = 9,
                                   .first = 0,
                                   .last = 1,
                                   .also_first = 2,
                                   .also_last = 4});
  };
  also(0);
  deliver_all(0);
  const Work own = compute();
  EXPECT_EQ(own, train(0, {0, 1}));
  EXPECT_THAT(sent_.take<wire::WorkDone>(), IsEmpty());
  absorb_all(own, 0);
  EXPECT_THAT(sent_.take<wire::WorkDone>(), ElementsAre(wire::WorkDone{0, 0, 1}));
  EXPECT_EQ(protocol_->next_work(), train(0, {2, 4}));
  const Work work = *protocol_->next_work();
  protocol_->started(work);
  // The step is complete without it: the straggler was faster.
  also(1);
  EXPECT_TRUE(protocol_->cancelled(work));
  protocol_->finished(work);
  deliver_all(1);
  EXPECT_EQ(compute(), train(1, {0, 1}));
  EXPECT_EQ(compute(), train(1, {2, 4}));
  EXPECT_EQ(protocol_->step(), 2);
}

TEST_F(SyncModesTest, AStragglersShareThatCannotBe) {
  make("'sync'");
  wire::Assign m{.generation = 1, .from = 0, .until = 9, .first = 0, .last = 1, .also_first = 3, .also_last = 5};
  EXPECT_FALSE(protocol_->on_message(kCoordinator, m));
  m.also_first = 3;
  m.also_last = 2;
  EXPECT_FALSE(protocol_->on_message(kCoordinator, m));
}

// --- local

TEST_F(SyncModesTest, ARoundBeginsWhenAllItsRatesAreKnown) {
  make("{ type = 'local', steps = 3 }");
  assign(0, 9, 1, 3);
  deliver_all(0);
  EXPECT_FALSE(protocol_->next_work());
  EXPECT_FALSE(protocol_->on_message(1, wire::WorkerRates{0, {0.5, 0.5, 0.5}})) << "from another than the coordinator";
  say(kCoordinator, wire::WorkerRates{0, {0.5, 0.25}});
  EXPECT_FALSE(protocol_->next_work());
  say(kCoordinator, wire::WorkerRates{2, {0.125, 0.1, 0.1, 0.1}});
  EXPECT_EQ(compute(), train(0, {1, 2}));
  EXPECT_EQ(protocol_->rate(2), 0.125);
  EXPECT_EQ(compute(), train(0, {2, 3}));
  EXPECT_EQ(protocol_->step(), 3) << "the next round";
  deliver_all(3);
  EXPECT_EQ(protocol_->next_work(), train(3, {1, 2}));
}

TEST_F(SyncModesTest, AnEvaluationNeedsNoRates) {
  make("{ type = 'local', steps = 3 }");
  assign(3, 4, 0, 2, StepKind::kEval);
  deliver_all(3);
  EXPECT_EQ(protocol_->next_work(), (Work{StepKind::kEval, 3, {0, 2}}));
}

}  // namespace
}  // namespace dtrain::worker
