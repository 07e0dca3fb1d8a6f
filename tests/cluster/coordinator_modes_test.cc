// How the coordinator leads in the modes that are not synchronous, and what it does about stragglers.
#include "coordinator_fixture.h"
#include "tests/consistency/rule_text.h"

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::StepKind;

// Ranks 0 and 1 hold parameters, 2 and 3 compute; four micro-batches a step, four steps.
class CoordinatorModes : public CoordinatorTest {
 protected:
  void start(const std::string& mode) {
    options_.rule = consistency::rule_of(mode);
    CoordinatorTest::start();
  }
  // Without lockstep: the push of micro-batch g of the run is taken.
  void push(wire::Rank from, int64_t g, uint32_t lag = 0, bool dropped = false) {
    const auto k = static_cast<uint32_t>(g % 4);
    say(from, wire::MetricNode{StepKind::kTrain, g / 4, k, k + 1, {8, 4, 1}, lag, dropped});
  }
  void node(wire::Rank from, int64_t step, uint32_t first, uint32_t last, uint32_t lag = 0) {
    say(from,
        wire::MetricNode{StepKind::kTrain, step, first, last, {2.0 * (last - first), 1.0 * (last - first), 0}, lag});
  }
  void commit(int64_t version) {
    say(0, wire::Committed{version});
    say(1, wire::Committed{version});
  }
  // The leases of a worker, by their first micro-batch.
  std::vector<int64_t> leases(wire::Rank rank) const {
    std::vector<int64_t> out;
    for (const wire::Assign& m : sent_.to<wire::Assign>(rank))
      if (m.kind == StepKind::kTrain) out.push_back(m.from);
    return out;
  }
};

// --- async

TEST_F(CoordinatorModes, MicroBatchesAreLeasedOneByOneToWhoIsDone) {
  start("'async'");
  EXPECT_THAT(leases(2), ElementsAre(0, 1));
  EXPECT_THAT(leases(3), ElementsAre(2, 3));
  EXPECT_THAT(sent_.to<wire::Rates>(0), ElementsAre(wire::Rates{0, {0.5}}));
  push(3, 2);
  push(3, 3);
  push(3, 4);
  EXPECT_THAT(leases(3), ElementsAre(2, 3, 4, 5, 6)) << "the faster one gets more";
  EXPECT_TRUE(told_.steps.empty());
  push(2, 0);
  ASSERT_THAT(told_.steps, SizeIs(1)) << "four have been taken";
  EXPECT_EQ(told_.steps[0].metrics, (Metrics{32, 16, 4}));
  EXPECT_THAT(sent_.to<wire::Rates>(1), ElementsAre(wire::Rates{0, {0.5}}, wire::Rates{1, {1.5}}));
}

TEST_F(CoordinatorModes, APushIsOfOneMicroBatchOfItsOwn) {
  start("'async'");
  push(2, 3);  // not leased to it
  push(2, 0);
  push(2, 0);
  say(2, wire::MetricNode{StepKind::kTrain, 1'000'000'000'000'000'000, 0, 1, {1, 1, 1}});
  say(2, wire::MetricNode{StepKind::kTrain, 4, 0, 1, {1, 1, 1}});
  push(2, 1);
  push(3, 2);
  EXPECT_TRUE(told_.steps.empty());
  EXPECT_FALSE(c_->on_message(2, wire::MetricNode{StepKind::kTrain, 0, 0, 2, {1, 1, 1}}));
}

TEST_F(CoordinatorModes, ALostWorkersLeasesGoToOthers) {
  start("'async'");
  push(2, 0);
  c_->on_lost(2, "connection closed");
  EXPECT_THAT(leases(3), ElementsAre(2, 3)) << "it has its two";
  push(3, 2);
  push(3, 3);
  EXPECT_THAT(leases(3), ElementsAre(2, 3, 1, 4));
}

TEST_F(CoordinatorModes, AWorkerThatJoinsIsLeasedAtOnce) {
  start("'async'");
  c_->on_lost(2, "connection closed");
  join(2);
  EXPECT_EQ(sent_.to<wire::Begin>(2).size(), 2u);
  const size_t before = leases(2).size();
  say(2, wire::Ready{});
  EXPECT_EQ(leases(2).size(), before + 2);
}

TEST_F(CoordinatorModes, APushOfSeveralIsOneLease) {
  options_.worker_rate = [](int64_t step) { return 10.0 + static_cast<double>(step); };
  start("{ type = 'async', push_every = 3, fetch_every = 2 }");
  EXPECT_THAT(sent_.to<wire::Assign>(2),
              ElementsAre(wire::Assign{1, StepKind::kTrain, 0, 3}, wire::Assign{2, StepKind::kTrain, 3, 6}));
  EXPECT_THAT(sent_.to<wire::WorkerRates>(2), ElementsAre(wire::WorkerRates{0, {10}}, wire::WorkerRates{0, {10, 11}}));
  push(2, 0);
  push(2, 1);
  EXPECT_THAT(leases(2), SizeIs(2));
  push(2, 2);
  EXPECT_THAT(leases(2), ElementsAre(0, 3, 12));
}

TEST_F(CoordinatorModes, TheBoundaryWaitsForEveryPush) {
  options_.steps = 1;
  options_.checkpoint_folder = "checkpoints";
  start("'async'");
  for (int64_t g : {0, 1, 2}) push(g < 2 ? 2 : 3, g);
  EXPECT_THAT(sent_.to<wire::Snapshot>(0), IsEmpty());
  tick(11 * kSecond);
  EXPECT_THAT(log_.text, HasSubstr("waiting for pushes of step 0: /job:worker/task:0 (h2:1), /job:worker/task:1"));
  c_->on_lost(3, "connection closed");
  EXPECT_THAT(leases(2), ElementsAre(0, 1, 3));
  push(2, 3);
  EXPECT_THAT(sent_.to<wire::Snapshot>(0), ElementsAre(wire::Snapshot{1, "checkpoints"}));
}

// What is out on lease cannot be taken back: the run ends at the end of the step that it reaches into.
TEST_F(CoordinatorModes, AnInterruptionFillsTheStepThatIsLeased) {
  options_.steps = 100;
  options_.checkpoint_folder = "checkpoints";
  start("'async'");
  push(2, 0);
  push(2, 1);  // it has 4 and 5 now
  c_->interrupt();
  std::map<wire::Rank, size_t> done{{2, 2}, {3, 0}};
  for (int i = 0; i < 20 && sent_.to<wire::Snapshot>(0).empty(); ++i)
    for (const wire::Rank rank : {2U, 3U})
      if (const auto mine = leases(rank); done[rank] < mine.size()) push(rank, mine[done[rank]++]);
  EXPECT_THAT(sent_.to<wire::Snapshot>(0), ElementsAre(wire::Snapshot{2, "checkpoints"}));
  for (wire::Rank rank : {0U, 1U}) say(rank, wire::SnapshotDone{.version = 2});
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kInterrupted);
  EXPECT_EQ(told_.steps.size(), 2u);
  EXPECT_EQ(done[2] + done[3], 8u) << "each micro-batch of two steps";
}

TEST_F(CoordinatorModes, AResumedRunGoesOnWithItsMicroBatches) {
  options_.first_step = 2;
  start("'async'");
  EXPECT_THAT(leases(2), ElementsAre(8, 9));
}

TEST_F(CoordinatorModes, LagsAndDropsAreReported) {
  start("'async'");
  push(2, 0, 0);
  push(2, 1, 1);
  push(3, 2, 3);
  push(3, 3, 4, true);
  ASSERT_THAT(told_.steps, SizeIs(1));
  ASSERT_TRUE(told_.steps[0].staleness);
  EXPECT_EQ(told_.steps[0].staleness->mean, 2.0);
  EXPECT_EQ(told_.steps[0].staleness->p99, 4u);
  EXPECT_EQ(told_.steps[0].staleness->dropped, 1u);
  EXPECT_EQ(told_.steps[0].staleness->pushes, 4u);
}

TEST_F(CoordinatorModes, ALossThatIsNotFiniteEndsAsynchronousRunsToo) {
  start("'async'");
  say(2, wire::MetricNode{StepKind::kTrain, 0, 0, 1, {std::nan(""), 4, 1}});
  EXPECT_EQ(sent_.to<wire::Stop>(3).at(0).exit_code, static_cast<uint8_t>(ExitCode::kNotFinite));
}

// --- backup

TEST_F(CoordinatorModes, SoManyMicroBatchesAreAStep) {
  start("{ type = 'backup', needed = 3 }");
  node(2, 0, 0, 1);
  node(2, 0, 1, 2);
  commit(1);
  EXPECT_TRUE(told_.steps.empty());
  node(3, 0, 2, 3);
  ASSERT_THAT(told_.steps, SizeIs(1));
  EXPECT_EQ(told_.steps[0].metrics, (Metrics{6, 3, 0}));
  EXPECT_EQ(told_.steps[0].staleness->dropped, 0u);
  node(3, 0, 3, 4);  // late
  for (uint32_t k = 0; k < 4; ++k) node(2 + k / 2, 1, k, k + 1);
  commit(2);
  ASSERT_THAT(told_.steps, SizeIs(2));
  EXPECT_EQ(told_.steps[1].metrics, (Metrics{8, 4, 0})) << "its metrics had come";
  EXPECT_EQ(told_.steps[1].staleness->dropped, 2u);
}

// --- stale

TEST_F(CoordinatorModes, MetricsMayBeAhead) {
  start("{ type = 'stale', bound = 1 }");
  node(2, 0, 0, 2);
  node(2, 1, 0, 2, 1);
  node(3, 0, 2, 4);
  commit(1);
  ASSERT_THAT(told_.steps, SizeIs(1));
  EXPECT_EQ(told_.steps[0].staleness->pushes, 6u);
  EXPECT_DOUBLE_EQ(told_.steps[0].staleness->mean, 1.0 / 3);
  node(3, 1, 2, 4);
  commit(2);
  EXPECT_THAT(told_.steps, SizeIs(2));
}

// --- local

TEST_F(CoordinatorModes, RoundsAreStepsOfSeveral) {
  options_.steps = 12;
  options_.checkpoint_folder = "checkpoints";
  options_.checkpoint_every = 5;
  options_.worker_rate = [](int64_t step) { return static_cast<double>(step); };
  start("{ type = 'local', steps = 3 }");
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{1, StepKind::kTrain, 0, 6, 0, 2}))
      << "up to the first after 5";
  EXPECT_THAT(sent_.to<wire::Rates>(0), ElementsAre(wire::Rates{0, {0.5, 3.5}}));
  EXPECT_THAT(sent_.to<wire::WorkerRates>(3), ElementsAre(wire::WorkerRates{0, {0, 1, 2, 3, 4, 5}}));
  metrics(0);
  commit(3);
  ASSERT_THAT(told_.steps, SizeIs(1));
  EXPECT_EQ(told_.steps[0].step, 2) << "the last of the round";
  c_->on_lost(3, "connection closed");
  join(3);
  say(3, wire::Ready{});
  EXPECT_EQ(sent_.to<wire::WorkerRates>(3).back(), (wire::WorkerRates{3, {3, 4, 5}})) << "who joins is told them";
  metrics(3);
  commit(6);
  EXPECT_THAT(sent_.to<wire::Snapshot>(0), ElementsAre(wire::Snapshot{6, "checkpoints"}));
  for (wire::Rank rank : {0U, 1U}) say(rank, wire::SnapshotDone{.version = 6});
  EXPECT_EQ(sent_.to<wire::Assign>(2).back().until, 12) << "10 lies in the last round, whose end is the run's";
}

// --- speculation

class Speculation : public CoordinatorModes {
 protected:
  void start() {
    options_.speculate = true;
    options_.steps = 100;
    CoordinatorTest::start();
  }
  void done(wire::Rank from, int64_t step, uint32_t first, uint32_t last) {
    say(from, wire::WorkDone{step, first, last});
  }
  void step(int64_t t, Nanoseconds took = 100 * kMillisecond) {
    c_->set_now(now_ += took);
    done(2, t, 0, 2);
    if (!slow_) done(3, t, 2, 4);
    CoordinatorTest::step(t);
  }
  bool slow_ = false;  // the second worker
};

TEST_F(Speculation, TheIdleComputeTheStragglersShareToo) {
  start();
  step(0);
  step(1);
  done(2, 2, 0, 2);
  tick(150 * kMillisecond);
  EXPECT_THAT(sent_.to<wire::Assign>(2), SizeIs(1));
  tick(100 * kMillisecond);
  EXPECT_THAT(log_.text, HasSubstr("/job:worker/task:1 is slow at step 2: others compute its share as well"));
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{2, StepKind::kTrain, 2, 100, 0, 2, 2, 4}));
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{2, StepKind::kTrain, 2, 100, 2, 4}));
  // Who still computes for a step that is complete is told to leave it.
  metrics(2);
  commit(3);
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{3, StepKind::kTrain, 3, 100, 2, 4}));
}

TEST_F(Speculation, InTimeAgainAndItIsLikeTheOthers) {
  start();
  step(0);
  slow_ = true;
  done(2, 1, 0, 2);
  tick(kSecond);
  step(1);
  slow_ = false;
  for (int64_t t = 2; t < 2 + Stragglers::kInTime; ++t) {
    EXPECT_EQ(sent_.to<wire::Assign>(2).back().also_last, 4u) << "step " << t;
    step(t);
  }
  EXPECT_EQ(sent_.to<wire::Assign>(2).back().also_last, 0u);
  const size_t assigned = sent_.to<wire::Assign>(2).size();
  step(2 + Stragglers::kInTime);
  EXPECT_THAT(sent_.to<wire::Assign>(2), SizeIs(assigned)) << "and no more is said";
}

TEST_F(Speculation, EvaluationsAreForTheFast) {
  options_.eval_micro_batches = 2;
  options_.eval_every = 3;
  start();
  step(0);
  slow_ = true;
  done(2, 1, 0, 2);
  tick(kSecond);
  step(1);
  step(2);
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{4, StepKind::kEval, 3, 4, 0, 2}));
  EXPECT_EQ(sent_.to<wire::Assign>(3).back().kind, StepKind::kTrain);
  c_->on_lost(2, "connection closed");
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{5, StepKind::kEval, 3, 4, 0, 2}))
      << "slow is better than none";
}

TEST_F(Speculation, NothingIsSaidWhereItIsNotWanted) {
  options_.steps = 100;
  CoordinatorTest::start();
  c_->set_now(now_ += 100 * kMillisecond);
  done(2, 0, 0, 2);
  done(3, 0, 2, 4);
  CoordinatorTest::step(0);
  done(2, 1, 0, 2);
  tick(5 * kSecond);
  EXPECT_THAT(sent_.to<wire::Assign>(2), SizeIs(1));
}

TEST_F(Speculation, WorkThatCannotBe) {
  start();
  EXPECT_FALSE(c_->on_message(0, wire::WorkDone{0, 0, 1}));
  EXPECT_FALSE(c_->on_message(2, wire::WorkDone{0, 1, 1}));
  EXPECT_FALSE(c_->on_message(2, wire::WorkDone{0, 0, 5}));
  EXPECT_FALSE(c_->on_message(2, wire::WorkDone{1'000, 0, 1}));
}

}  // namespace
}  // namespace dtrain::cluster
