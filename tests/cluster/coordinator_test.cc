#include "cluster/coordinator.h"

#include <cmath>
#include <limits>

#include "coordinator_fixture.h"

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::StepKind;

TEST_F(CoordinatorTest, BeginsWhenAllAreThereAndTrainsWhenAllAreReady) {
  options_.first_step = 2;
  options_.checkpoint = "checkpoints/step-00000002";
  make();
  join(0);
  join(2, 6);
  join(3, 2);
  EXPECT_TRUE(sent_.letters.empty());
  join(1);
  const wire::Begin begin{4, 0, 2, 2, "checkpoints/step-00000002"};
  for (wire::Rank rank = 0; rank < 4; ++rank) EXPECT_THAT(sent_.to<wire::Begin>(rank), ElementsAre(begin));
  EXPECT_EQ(told_.began, std::make_pair(int64_t{2}, 2U));
  for (wire::Rank rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(sent_.to<wire::Assign>(2).empty());
    say(rank, wire::Ready{});
  }
  EXPECT_THAT(sent_.to<wire::Assign>(2), ElementsAre(wire::Assign{1, StepKind::kTrain, 2, 4, 0, 2}));
  EXPECT_THAT(sent_.to<wire::Assign>(3), ElementsAre(wire::Assign{1, StepKind::kTrain, 2, 4, 2, 4}));
  EXPECT_THAT(sent_.to<wire::Rates>(1), ElementsAre(wire::Rates{2, {2.5, 3.5}}));
}

TEST_F(CoordinatorTest, OfASplitNetworkEveryWorkerGetsAllMicroBatches) {
  options_.split = options_.speculate = true;
  options_.eval_micro_batches = 3;
  start();
  EXPECT_THAT(sent_.to<wire::Assign>(2), ElementsAre(wire::Assign{1, StepKind::kTrain, 0, 4, 0, 4}));
  EXPECT_THAT(sent_.to<wire::Assign>(3), ElementsAre(wire::Assign{1, StepKind::kTrain, 0, 4, 0, 4}));
  for (int64_t t = 0; t < 4; ++t) step(t);
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{2, StepKind::kEval, 4, 5, 0, 3}));
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{2, StepKind::kEval, 4, 5, 0, 3}));
  metrics(4, 8, StepKind::kEval);
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kDone);
}

TEST_F(CoordinatorTest, ALostPartOfTheNetworkEndsTheRun) {
  options_.split = true;
  start();
  step(0);
  c_->on_lost(3, "its connection was closed");
  for (wire::Rank rank = 0; rank < 3; ++rank) {
    ASSERT_THAT(sent_.to<wire::Stop>(rank), testing::SizeIs(1));
    EXPECT_EQ(sent_.to<wire::Stop>(rank)[0].exit_code, static_cast<uint8_t>(ExitCode::kPeerLost));
  }
  for (wire::Rank rank = 0; rank < 3; ++rank) say(rank, wire::Stopped{});
  EXPECT_EQ(told_.code, ExitCode::kPeerLost);
  EXPECT_EQ(told_.reason,
            "/job:worker/task:1 (h3:1), which computes a part of the network, is lost at step 1: its connection was "
            "closed");
}

TEST_F(CoordinatorTest, APartOfTheNetworkThatIsLostBeforeTheBeginMayComeBack) {
  options_.split = true;
  make();
  join(0);
  join(3);
  c_->on_lost(3, "its connection was closed");
  join(1);
  join(2);
  EXPECT_TRUE(sent_.letters.empty());
  join(3);
  EXPECT_EQ(sent_.to<wire::Begin>(3).size(), 1U);
}

TEST_F(CoordinatorTest, NamesWhomItWaitsForAtTheStart) {
  make();
  join(0);
  join(2);
  tick(6 * kSecond);
  EXPECT_THAT(log_.text, HasSubstr("/job:ps/task:1 (h1:1), /job:worker/task:1 (h3:1)"));
  tick(60 * kSecond);
  EXPECT_THAT(sent_.to<wire::Stop>(2),
              ElementsAre(testing::Field(&wire::Stop::reason, HasSubstr("/job:worker/task:1 (h3:1)"))));
  EXPECT_FALSE(c_->finished());
  say(0, wire::Stopped{});
  say(2, wire::Stopped{});
  EXPECT_TRUE(c_->finished());
  EXPECT_EQ(told_.code, ExitCode::kPeerLost);
}

// A worker that coordinates joins only when it reaches all servers: it must hear of the end all the same.
TEST_F(CoordinatorTest, TheEndBeforeTheStartIsSaidToThoseWhoHaveNotJoinedToo) {
  make();
  join(2);
  tick(61 * kSecond);
  for (wire::Rank rank = 0; rank < 4; ++rank)
    EXPECT_THAT(sent_.to<wire::Stop>(rank),
                ElementsAre(testing::Field(&wire::Stop::exit_code, static_cast<uint8_t>(ExitCode::kPeerLost))));
  say(0, wire::Stopped{});
  EXPECT_FALSE(c_->finished());
  say(2, wire::Stopped{});
  EXPECT_TRUE(c_->finished());
}

TEST_F(CoordinatorTest, ReportsAStepWhenAllServersAndAllMetricsAreThere) {
  start();
  say(0, wire::Committed{1});
  say(1, wire::Committed{1});
  EXPECT_TRUE(told_.steps.empty());
  say(2, wire::MetricNode{StepKind::kTrain, 0, 0, 2, 1, 2, 1});
  say(2, wire::MetricNode{StepKind::kTrain, 0, 0, 2, 1, 2, 1});
  EXPECT_TRUE(told_.steps.empty());
  say(3, wire::MetricNode{StepKind::kTrain, 0, 2, 4, 3, 2, 0});
  ASSERT_EQ(told_.steps.size(), 1U);
  EXPECT_EQ(told_.steps[0].step, 0);
  EXPECT_EQ(told_.steps[0].metrics, (Metrics{4, 4, 1}));
  EXPECT_EQ(told_.steps[0].rate, 0.5);
  EXPECT_THAT(sent_.to<wire::Rates>(0), ElementsAre(wire::Rates{0, {0.5, 1.5}}, wire::Rates{2, {2.5}}));
  metrics(1);
  say(1, wire::Committed{2});
  EXPECT_EQ(told_.steps.size(), 1U);
}

TEST_F(CoordinatorTest, ALostWorkersMicroBatchesGoToTheOthersAtOnce) {
  start();
  step(0);
  c_->on_lost(2, "connection closed");
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{2, StepKind::kTrain, 1, 4, 0, 4}));
  join(2);
  EXPECT_EQ(sent_.to<wire::Begin>(2).back(), (wire::Begin{4, 0, 3, 1, ""}));
  EXPECT_EQ(sent_.to<wire::Assign>(2).size(), 1U);
  say(2, wire::Ready{});
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{3, StepKind::kTrain, 1, 4, 0, 2}));
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{3, StepKind::kTrain, 1, 4, 2, 4}));
}

TEST_F(CoordinatorTest, WithoutWorkersItWaitsAndSaysSoThenEnds) {
  start();
  c_->on_lost(2, "killed");
  c_->on_lost(3, "killed");
  tick(6 * kSecond);
  EXPECT_THAT(log_.text, HasSubstr("waiting for step 0: a worker, of /job:worker/task:0 (h2:1), /job:worker/task:1"));
  tick(3600 * kSecond);
  say(0, wire::Stopped{});
  say(1, wire::Stopped{});
  EXPECT_EQ(told_.code, ExitCode::kPeerLost);
}

TEST_F(CoordinatorTest, ALostServerEndsTheRun) {
  start();
  c_->on_lost(1, "connection closed");
  EXPECT_THAT(sent_.to<wire::Stop>(3), ElementsAre(testing::Field(&wire::Stop::reason, HasSubstr("/job:ps/task:1"))));
  EXPECT_TRUE(sent_.to<wire::Stop>(1).empty());
  tick(11 * kSecond);
  EXPECT_TRUE(c_->finished()) << "it does not wait for ever";
  EXPECT_EQ(told_.code, ExitCode::kPeerLost);
}

TEST_F(CoordinatorTest, CutsAtEvaluationsAndCheckpointsAndTheEnd) {
  options_.eval_micro_batches = 2;
  options_.eval_every = 2;
  options_.checkpoint_every = 3;
  options_.checkpoint_folder = "out/checkpoints";
  start();
  EXPECT_EQ(sent_.to<wire::Assign>(2).back().until, 2);
  step(0);
  step(1);
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{2, StepKind::kEval, 2, 3, 0, 1}));
  EXPECT_EQ(sent_.to<wire::Rates>(0).back(), (wire::Rates{0, {0.5, 1.5}})) << "servers stand during the evaluation";
  metrics(2, 6, StepKind::kEval);
  EXPECT_THAT(told_.evals, ElementsAre(std::make_pair(int64_t{2}, Metrics{6, 4, 1})));
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{3, StepKind::kTrain, 2, 3, 0, 2}));
  step(2);
  EXPECT_EQ(sent_.to<wire::Snapshot>(0).back(), (wire::Snapshot{3, "out/checkpoints"}));
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{4, StepKind::kTrain, 3, 4, 0, 2})) << "does not wait";
  step(3);
  EXPECT_EQ(sent_.to<wire::Snapshot>(0).size(), 1U) << "one at a time";
  say(0, wire::SnapshotDone{3, "shard-0", 10, {}, ""});
  EXPECT_TRUE(told_.snapshots.empty());
  say(1, wire::SnapshotDone{3, "shard-1", 10, {}, ""});
  EXPECT_THAT(told_.snapshots, ElementsAre(3));
  EXPECT_EQ(told_.last_files[1].file, "shard-1");
  EXPECT_EQ(sent_.to<wire::Snapshot>(1).back().version, 4);
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{5, StepKind::kEval, 4, 5, 1, 2}));
  c_->on_lost(3, "killed");
  EXPECT_EQ(sent_.to<wire::Assign>(2).back(), (wire::Assign{6, StepKind::kEval, 4, 5, 0, 2}));
  metrics(4, 2, StepKind::kEval);
  EXPECT_TRUE(sent_.to<wire::Stop>(0).empty()) << "not before the last snapshot is written";
  c_->on_lost(2, "after the last commit it does not matter");
  say(0, wire::SnapshotDone{4, "shard-0", 10, {}, ""});
  say(1, wire::SnapshotDone{4, "shard-1", 10, {}, ""});
  EXPECT_THAT(sent_.to<wire::Stop>(0), ElementsAre(wire::Stop{0, ""}));
  join(2);
  EXPECT_THAT(sent_.to<wire::Stop>(2), ElementsAre(wire::Stop{0, ""}));
  say(0, wire::Stopped{});
  say(1, wire::Stopped{});
  EXPECT_FALSE(c_->finished());
  say(2, wire::Stopped{});
  EXPECT_TRUE(c_->finished());
  EXPECT_EQ(told_.code, ExitCode::kDone);
  EXPECT_EQ(told_.steps.size(), 4U);
}

TEST_F(CoordinatorTest, ACheckpointThatFailsIsReportedAndOnlyTheLastOneEndsTheRun) {
  options_.checkpoint_every = 2;
  options_.checkpoint_folder = "out";
  start();
  step(0);
  EXPECT_FALSE(c_->awaits_shard(1, 2)) << "not yet";
  step(1);
  EXPECT_TRUE(c_->awaits_shard(1, 2));
  EXPECT_FALSE(c_->awaits_shard(1, 1));
  EXPECT_FALSE(c_->awaits_shard(2, 2)) << "a worker";
  say(0, wire::SnapshotDone{2, "", 0, {}, "no space left"});
  EXPECT_FALSE(c_->awaits_shard(0, 2));
  EXPECT_TRUE(c_->awaits_shard(1, 2));
  say(1, wire::SnapshotDone{2, "shard-1", 10, {}, ""});
  EXPECT_FALSE(c_->awaits_shard(1, 2));
  EXPECT_THAT(told_.abandoned, ElementsAre(2));
  EXPECT_THAT(log_.text, HasSubstr("/job:ps/task:0: no space left"));
  step(2);
  step(3);
  told_.disk_error = "cannot rename";
  say(0, wire::SnapshotDone{4, "shard-0", 10, {}, ""});
  say(1, wire::SnapshotDone{4, "shard-1", 10, {}, ""});
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kCheckpoint);
  EXPECT_THAT(told_.reason, HasSubstr("cannot rename"));
}

TEST_F(CoordinatorTest, ClipsAsPyTorchDoes) {
  options_.norms = {ps::norm_rounds(true, optim::NormNeed::kNone), 1.0, {}};
  start();
  ASSERT_EQ(table_.of_server(0).size(), 1U);
  say(1, wire::NormPartial{0, 0, {64.0}});
  EXPECT_TRUE(sent_.to<wire::NormFactor>(0).empty());
  say(0, wire::NormPartial{0, 0, {36.0}});
  const double norm = 10.0 / 4;
  const wire::NormFactor factor{0, 0, 1.0 / (norm + 1e-6), {}};
  EXPECT_THAT(sent_.to<wire::NormFactor>(0), ElementsAre(factor));
  EXPECT_THAT(sent_.to<wire::NormFactor>(1), ElementsAre(factor));
  step(0);
  EXPECT_EQ(told_.steps[0].norm, norm);
  say(0, wire::NormPartial{1, 0, {0.25}});
  say(1, wire::NormPartial{1, 0, {0.0}});
  EXPECT_EQ(sent_.to<wire::NormFactor>(1).back(), (wire::NormFactor{1, 0, 1.0, {}}));
  step(1);
  say(0, wire::NormPartial{2, 0, {std::numeric_limits<double>::infinity()}});
  say(1, wire::NormPartial{2, 0, {0.0}});
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kNotFinite);
  EXPECT_THAT(told_.reason, HasSubstr("step 2"));
}

TEST_F(CoordinatorTest, ALossThatIsNotFiniteEndsTheRunAfterTheStepsBefore) {
  start();
  metrics(0);
  metrics(1, std::nan(""));
  EXPECT_TRUE(sent_.to<wire::Stop>(0).empty());
  say(0, wire::Committed{1});
  say(1, wire::Committed{1});
  everybody_leaves();
  EXPECT_EQ(told_.steps.size(), 1U);
  EXPECT_EQ(told_.code, ExitCode::kNotFinite);
  EXPECT_EQ(told_.reason, "step 1: the loss is nan");
}

TEST_F(CoordinatorTest, AFailureOfATaskEndsTheRunWithItsCode) {
  start();
  say(3, wire::Failure{3, "train.idx: cut off"});
  EXPECT_THAT(sent_.to<wire::Stop>(0), ElementsAre(wire::Stop{3, "/job:worker/task:1: train.idx: cut off"}));
}

TEST_F(CoordinatorTest, AnInterruptionEndsAtTheNextStepBoundaryWithASnapshot) {
  options_.steps = 100;
  options_.checkpoint_folder = "out";
  start();
  step(0);
  c_->interrupt();
  EXPECT_EQ(sent_.to<wire::Assign>(3).back(), (wire::Assign{2, StepKind::kTrain, 1, 3, 2, 4}));
  step(1);
  step(2);
  EXPECT_EQ(sent_.to<wire::Snapshot>(0).back().version, 3);
  say(0, wire::SnapshotDone{3, "shard-0", 10, {}, ""});
  say(1, wire::SnapshotDone{3, "shard-1", 10, {}, ""});
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kInterrupted);
  EXPECT_THAT(told_.snapshots, ElementsAre(3));
}

TEST_F(CoordinatorTest, TheSecondInterruptionEndsAtOnce) {
  start();
  c_->interrupt();
  c_->interrupt();
  EXPECT_EQ(sent_.to<wire::Stop>(0).size(), 1U);
}

TEST_F(CoordinatorTest, PeersThatBreakTheProtocolAreErrors) {
  start();
  EXPECT_FALSE(c_->on_message(9, wire::Ready{}));
  EXPECT_FALSE(c_->on_message(2, wire::Committed{1}));
  EXPECT_FALSE(c_->on_message(0, wire::Committed{3})) << "rates reach to version 2";
  EXPECT_FALSE(c_->on_message(0, wire::MetricNode{StepKind::kTrain, 0, 0, 4, 1, 1, 1})) << "does not compute";
  EXPECT_FALSE(c_->on_message(2, wire::MetricNode{StepKind::kTrain, 0, 1, 3, 1, 1, 1})) << "no node";
  EXPECT_FALSE(c_->on_message(2, wire::MetricNode{StepKind::kEval, 0, 0, 1, 1, 1, 1})) << "no evaluations";
  EXPECT_FALSE(c_->on_message(0, wire::NormPartial{0, 0, {1, 2, 3}}));
  EXPECT_FALSE(c_->on_message(0, wire::Pull{}));
  EXPECT_FALSE(c_->on_message(0, wire::Join{true, true, 1, 1}));
  EXPECT_FALSE(c_->on_message(2, wire::Ready{}));
}

// Beside the fixture's, rank 4 may join or not.
class ElasticTest : public CoordinatorTest {
 protected:
  ElasticTest() { options_.tasks.push_back({"/job:worker/task:2", "not listed", true, false, true}); }
  std::pair<uint32_t, uint32_t> share(wire::Rank rank) const {
    const wire::Assign assign = sent_.to<wire::Assign>(rank).back();
    return {assign.first, assign.last};
  }
};

TEST_F(ElasticTest, AnOptionalWorkerIsNotWaitedForAndIsUsedWhenItJoins) {
  start();
  EXPECT_EQ(told_.began.first, 0);
  EXPECT_TRUE(sent_.to<wire::Begin>(4).empty());
  step(0);
  join(4);
  EXPECT_EQ(sent_.to<wire::Begin>(4).size(), 1U);
  say(4, wire::Ready{});
  EXPECT_EQ(share(2), std::make_pair(0U, 1U));
  EXPECT_EQ(share(3), std::make_pair(1U, 2U));
  EXPECT_EQ(share(4), std::make_pair(2U, 4U));
  say(4, wire::Stopped{});
  EXPECT_THAT(log_.text, HasSubstr("/job:worker/task:2 (not listed) leaves at step 1"));
  EXPECT_THAT(log_.text, testing::Not(HasSubstr("lost")));
  EXPECT_EQ(share(3), std::make_pair(2U, 4U));
  c_->on_lost(4, "the connection is closed");
  EXPECT_THAT(log_.text, testing::Not(HasSubstr("lost"))) << "that one has left";
  for (int64_t t = 1; t < 4; ++t) step(t);
  everybody_leaves();
  EXPECT_EQ(told_.code, ExitCode::kDone);
}

TEST_F(ElasticTest, BeginsWithEnoughWorkersWhenTheOthersHaveHadTheirTime) {
  options_.min_workers = 1;
  options_.start_grace = 3 * kSecond;
  make();
  join(0);
  join(2, 2);
  tick(4 * kSecond);
  EXPECT_TRUE(sent_.letters.empty()) << "a server is missing";
  join(1);
  tick(2 * kSecond);
  c_->on_lost(2, "gone");
  tick(2 * kSecond);
  EXPECT_TRUE(sent_.letters.empty());
  join(2, 2);
  tick(2 * kSecond);
  EXPECT_TRUE(sent_.letters.empty()) << "time for the others begins anew";
  tick(kSecond);
  EXPECT_EQ(told_.began, std::make_pair(int64_t{0}, 2U)) << "threads of those that are there";
  EXPECT_TRUE(sent_.to<wire::Begin>(3).empty());
  for (wire::Rank rank = 0; rank < 3; ++rank) say(rank, wire::Ready{});
  EXPECT_EQ(share(2), std::make_pair(0U, 4U));
}

TEST_F(ElasticTest, WaitsWhileWorkersAreTooFew) {
  options_.min_workers = 2;
  start();
  EXPECT_EQ(share(3), std::make_pair(2U, 4U));
  c_->on_lost(2, "gone");
  EXPECT_EQ(share(3), std::make_pair(0U, 0U));
  tick(6 * kSecond);
  EXPECT_THAT(log_.text,
              HasSubstr("waiting for step 0: at least 2 workers instead of 1, of /job:worker/task:0 (h2:1) (6 s)"));
  join(4);
  say(4, wire::Ready{});
  EXPECT_EQ(share(3), std::make_pair(0U, 2U));
  EXPECT_EQ(share(4), std::make_pair(2U, 4U));
}

TEST_F(ElasticTest, WhoComesWhenTheRunIsOverIsToldSo) {
  start();
  c_->on_connected(4);
  EXPECT_TRUE(sent_.to<wire::Stop>(4).empty());
  for (int64_t t = 0; t < 4; ++t) step(t);
  c_->on_connected(4);
  EXPECT_THAT(sent_.to<wire::Stop>(4), ElementsAre(wire::Stop{0, ""}));
  everybody_leaves();
  EXPECT_TRUE(c_->finished()) << "it is not waited for";
}

}  // namespace
}  // namespace dtrain::cluster
