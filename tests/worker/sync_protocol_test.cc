#include "worker/sync_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/letters.h"

namespace dtrain::worker {
namespace {

using ps::Node;
using testing::ElementsAre;
using wire::StepKind;

constexpr wire::Rank kServer0 = 0, kServer1 = 1;

// Parameters: "small" (10 elements), "large" (70,000: two chunks), "last" (5, a statistic); two servers.
class SyncProtocolTest : public testing::Test {
 protected:
  SyncProtocolTest()
      : table_({{"small", {10}, ParameterKind::kTrainable},
                {"large", {70'000}, ParameterKind::kTrainable},
                {"last", {5}, ParameterKind::kStatistic}},
               2),
        memory_{std::vector<float>(10), std::vector<float>(70'000), std::vector<float>(5)},
        protocol_(table_,
                  {.server_ranks = {kServer0, kServer1},
                   .coordinator = kServer0,
                   .micro_batches = 4,
                   .eval_micro_batches = 2,
                   .memory = {memory_[0].data(), memory_[1].data(), memory_[2].data()}},
                  sent_) {}

  wire::Rank owner(uint32_t block) const { return table_.block(block).server; }
  void assign(int64_t from, int64_t until, uint32_t first, uint32_t last, StepKind kind = StepKind::kTrain) {
    ASSERT_TRUE(protocol_.on_message(
        kServer0,
        wire::Assign{
            .generation = ++generation_, .kind = kind, .from = from, .until = until, .first = first, .last = last}));
  }
  Status chunk(uint32_t block, int64_t version, uint32_t index, float value) {
    std::vector<float> values(static_cast<size_t>(table_.block(block).chunk_elements(index)), value);
    return protocol_.on_message(owner(block), wire::ParameterChunk{.block = block, .version = version, .chunk = index},
                                as_byte_span(std::span(values)));
  }
  void deliver(uint32_t block, int64_t version, float value) {
    for (uint32_t i = 0; i < table_.block(block).chunks(); ++i) ASSERT_TRUE(chunk(block, version, i, value));
  }
  void deliver_all(int64_t version, float value = 0) {
    for (uint32_t block = 0; block < 3; ++block) deliver(block, version, value);
  }
  // Starts and ends whatever there is to do, up to `n` works.
  std::vector<Work> work_off(int n = 100) {
    std::vector<Work> out;
    for (; n > 0; --n) {
      const auto work = protocol_.next_work();
      if (!work) break;
      out.push_back(*work);
      protocol_.started(*work);
      protocol_.finished(*work);
    }
    return out;
  }
  // Starts the next work and says its metrics.
  Work begin_next() {
    const Work work = *protocol_.next_work();
    protocol_.started(work);
    protocol_.metrics(work, {});
    return work;
  }
  void hand_in(const Work& work, ParameterIndex parameter) {
    const auto gradient = std::make_shared<std::vector<float>>(memory_[static_cast<size_t>(parameter)].size(), 1.0F);
    protocol_.gradient(work, {parameter, 0, static_cast<int64_t>(gradient->size()), gradient->data()}, gradient);
  }
  bool ready(int64_t version) const {
    return protocol_.parameter_ready(0, version) && protocol_.parameter_ready(1, version) &&
           protocol_.parameter_ready(2, version);
  }
  static Work train(int64_t step, Node node) { return {StepKind::kTrain, step, node}; }

  ps::BlockTable table_;
  std::vector<std::vector<float>> memory_;
  Letters sent_;
  SyncProtocol protocol_;
  uint32_t generation_ = 0;
};

TEST_F(SyncProtocolTest, PullsEveryBlockInForwardOrderAndOffersWorkMeanwhile) {
  EXPECT_FALSE(protocol_.next_work());
  assign(3, 5, 0, 3);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 3}, wire::Pull{1, 3}, wire::Pull{2, 3}));
  EXPECT_EQ(protocol_.next_work(), train(3, {0, 2}));
  deliver(0, 3, 1.5F);
  EXPECT_TRUE(protocol_.parameter_ready(0, 3));
  ASSERT_TRUE(chunk(1, 3, 0, 2.5F));
  EXPECT_FALSE(protocol_.parameter_ready(1, 3));
  ASSERT_TRUE(chunk(1, 3, 1, 2.5F));
  EXPECT_TRUE(protocol_.parameter_ready(1, 3));
  EXPECT_FALSE(ready(3));
  EXPECT_THAT(memory_[0], testing::Each(1.5F));
  EXPECT_THAT(memory_[1], testing::Each(2.5F));
}

TEST_F(SyncProtocolTest, GoesThroughItsShareThenToTheNextVersionUpToTheEndOfTheSegment) {
  assign(0, 2, 0, 3);
  deliver_all(0);
  sent_.clear();
  EXPECT_THAT(work_off(1), ElementsAre(train(0, {0, 2})));
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre());
  EXPECT_THAT(work_off(1), ElementsAre(train(0, {2, 3})));
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 1, 0}, wire::Pull{1, 1, 0}, wire::Pull{2, 1, 0}));
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 2}));
  deliver_all(1);
  sent_.clear();
  EXPECT_THAT(work_off(), ElementsAre(train(1, {0, 2}), train(1, {2, 3})));
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 2, 1}, wire::Pull{1, 2, 1}, wire::Pull{2, 2, 1}));
  deliver_all(2);
  EXPECT_FALSE(protocol_.next_work());
  // The next segment starts from what is there.
  sent_.clear();
  assign(2, 4, 0, 4);
  EXPECT_TRUE(sent_.letters.empty());
  EXPECT_EQ(protocol_.next_work(), train(2, {0, 4}));
}

TEST_F(SyncProtocolTest, SmallBlocksTravelAtOnceLargeOnesWhenTaken) {
  assign(0, 9, 0, 4);
  deliver_all(0);
  const Work work = *protocol_.next_work();
  protocol_.started(work);
  sent_.clear();
  auto gradients = std::make_shared<std::vector<float>>(70'000, 1.0F);
  protocol_.metrics(work, {1.0, 2.0, 3.0, 4.0});
  protocol_.gradient(work, {1, 0, 70'000, gradients->data()}, gradients);
  protocol_.gradient(work, {0, 0, 10, gradients->data()}, gradients);
  EXPECT_THAT(sent_.all<wire::MetricNode>(),
              ElementsAre(wire::MetricNode{StepKind::kTrain, 0, 0, 4, {1.0, 2.0, 3.0, 4.0}}));
  EXPECT_TRUE(std::holds_alternative<wire::MetricNode>(sent_.letters.front().message)) << "metrics go first";
  EXPECT_THAT(sent_.all<wire::Offer>(), ElementsAre(wire::Offer{0, 1, 0, 4}));
  EXPECT_THAT(sent_.all<wire::NodeChunk>(), ElementsAre(wire::NodeChunk{0, 0, 0, 4, 0}));
  EXPECT_EQ(sent_.letters.at(3).payload.bytes.size(), 40U);
  EXPECT_EQ(protocol_.unanswered(work), 2U);

  sent_.clear();
  ASSERT_TRUE(protocol_.on_message(owner(1), wire::Take{0, 1, 0, 4, 0b10}));
  EXPECT_THAT(sent_.all<wire::NodeChunk>(), ElementsAre(wire::NodeChunk{0, 1, 0, 4, 1}));
  EXPECT_EQ(static_cast<const void*>(sent_.letters.back().payload.bytes.data()), gradients->data() + 65'536);
  EXPECT_EQ(sent_.letters.back().payload.bytes.size(), (70'000U - 65'536U) * 4);

  ASSERT_TRUE(protocol_.on_message(owner(1), wire::Absorbed{0, 1, 0, 4}));
  ASSERT_TRUE(protocol_.on_message(owner(0), wire::Absorbed{0, 0, 0, 4}));
  EXPECT_EQ(protocol_.unanswered(work), 0U);
  EXPECT_EQ(gradients.use_count(), 2) << "the message under way holds the memory, the protocol does not any more";
  sent_.clear();
  EXPECT_EQ(gradients.use_count(), 1);
  ASSERT_TRUE(protocol_.on_message(owner(1), wire::Take{0, 1, 0, 4, 0b01})) << "late, and forgotten";
  EXPECT_TRUE(sent_.letters.empty());
}

// In the last work of a step.
TEST_F(SyncProtocolTest, ABlockGoesOnToTheNextVersionWithItsGradient) {
  assign(0, 9, 0, 3);
  deliver_all(0, 7);
  const Work first = begin_next();
  sent_.clear();
  hand_in(first, 1);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre()) << "there is another node to be done of the step";
  hand_in(first, 0);
  protocol_.finished(first);

  const Work last = begin_next();
  EXPECT_EQ(last, train(0, {2, 3}));
  sent_.clear();
  hand_in(last, 1);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{1, 1, 0}));
  deliver(1, 1, 8);
  EXPECT_THAT(memory_[1], testing::Each(8)) << "while the rest is computed";
  EXPECT_THAT(memory_[0], testing::Each(7));
  EXPECT_FALSE(protocol_.parameter_ready(1, 0));
  hand_in(last, 0);
  protocol_.finished(last);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{1, 1, 0}, wire::Pull{0, 1, 0}, wire::Pull{2, 1, 0}));
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 2}));
  EXPECT_TRUE(protocol_.parameter_ready(1, 1));
  EXPECT_FALSE(protocol_.parameter_ready(0, 1));
}

TEST_F(SyncProtocolTest, WhatWasLetGoIsWantedAgainWhereThereIsMoreToDoOfTheStep) {
  assign(0, 9, 0, 2);
  deliver_all(0, 7);
  const Work work = begin_next();
  hand_in(work, 1);
  hand_in(work, 0);
  deliver(1, 1, 8);
  assign(0, 9, 0, 4);  // somebody else is gone
  sent_.clear();
  protocol_.finished(work);
  EXPECT_EQ(protocol_.next_work(), train(0, {2, 4}));
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{1, 0, 1})) << "the other is still there as it was";
  EXPECT_TRUE(protocol_.parameter_ready(0, 0));
  deliver(0, 1, 9);  // the answer to the pull before
  EXPECT_THAT(memory_[0], testing::Each(7));
  deliver(1, 0, 7);
  EXPECT_TRUE(ready(0));
  EXPECT_THAT(work_off(1), ElementsAre(train(0, {2, 4})));
  deliver_all(1, 8);
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 4}));
  EXPECT_TRUE(ready(1));
}

TEST_F(SyncProtocolTest, ACancelledWorkKeepsWhatItHasNotHandedIn) {
  assign(0, 9, 0, 2);
  deliver_all(0, 7);
  const Work work = begin_next();
  hand_in(work, 1);
  assign(3, 9, 0, 2);  // the others are far ahead
  EXPECT_TRUE(protocol_.cancelled(work));
  sent_.clear();
  deliver(1, 1, 8);
  EXPECT_FALSE(protocol_.next_work());
  EXPECT_THAT(memory_[0], testing::Each(7));
  protocol_.finished(work);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 3, 0}, wire::Pull{1, 3, 1}, wire::Pull{2, 3, 0}));
  deliver_all(3);
  EXPECT_TRUE(ready(3));
  EXPECT_EQ(protocol_.next_work(), train(3, {0, 2}));
}

TEST_F(SyncProtocolTest, TakesOverMicroBatchesOfTheStepUnderWay) {
  assign(0, 9, 0, 2);
  deliver_all(0);
  protocol_.started(*protocol_.next_work());
  assign(0, 9, 0, 4);
  EXPECT_FALSE(protocol_.next_work()) << "one at a time";
  EXPECT_FALSE(protocol_.cancelled(train(0, {0, 2})));
  protocol_.finished(train(0, {0, 2}));
  EXPECT_EQ(protocol_.next_work(), train(0, {2, 4})) << "what is done is not done again";
}

TEST_F(SyncProtocolTest, TurnsBackForMoreOfAStepAndPullsItsVersionAgain) {
  assign(0, 9, 0, 2);
  deliver_all(0, 7);
  work_off(1);
  deliver(1, 1, 8);
  const Work ahead = *protocol_.next_work();
  EXPECT_EQ(ahead, train(1, {0, 2}));
  protocol_.started(ahead);
  sent_.clear();
  assign(0, 9, 0, 4);
  EXPECT_TRUE(protocol_.cancelled(ahead));
  EXPECT_FALSE(protocol_.next_work());
  EXPECT_TRUE(sent_.letters.empty()) << "nothing may come into memory before the compute side has left the work";
  EXPECT_TRUE(protocol_.parameter_ready(1, 1));
  protocol_.finished(ahead);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{1, 0, 1}))
      << "of the others memory still holds version 0";
  EXPECT_TRUE(protocol_.parameter_ready(0, 0));
  EXPECT_FALSE(protocol_.parameter_ready(1, 0));
  EXPECT_EQ(protocol_.next_work(), train(0, {2, 4}));

  deliver(0, 1, 9);  // the answer to the pull before
  EXPECT_THAT(memory_[0], testing::Each(7));
  deliver(1, 0, 7);
  EXPECT_TRUE(ready(0));
  EXPECT_THAT(work_off(1), ElementsAre(train(0, {2, 4})));
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 4})) << "the cancelled work does not count as done";
}

TEST_F(SyncProtocolTest, DoesNotTurnBackFromAVersionThatProvesTheStep) {
  assign(0, 9, 0, 2);
  deliver_all(0);
  work_off(1);
  deliver_all(1);
  sent_.clear();
  assign(0, 9, 0, 4);
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 4}));
  EXPECT_TRUE(sent_.letters.empty());
}

TEST_F(SyncProtocolTest, DoesNotTurnBackWithoutMoreToDo) {
  assign(0, 9, 0, 2);
  deliver_all(0);
  work_off(1);
  sent_.clear();
  assign(0, 9, 0, 1);
  EXPECT_EQ(protocol_.step(), 1);
  EXPECT_TRUE(sent_.letters.empty());
}

TEST_F(SyncProtocolTest, JumpsAheadWhenOthersHaveDoneTheStep) {
  assign(0, 9, 0, 4);
  deliver_all(0);
  const Work work = *protocol_.next_work();
  protocol_.started(work);
  assign(5, 9, 0, 4);
  EXPECT_TRUE(protocol_.cancelled(work));
  auto gradients = std::make_shared<std::vector<float>>(10);
  sent_.clear();
  protocol_.metrics(work, {1, 1, 1});
  protocol_.gradient(work, {0, 0, 10, gradients->data()}, gradients);
  EXPECT_TRUE(sent_.letters.empty());
  deliver(0, 5, 3);
  EXPECT_THAT(memory_[0], testing::Each(0)) << "memory does not change under a work";
  protocol_.finished(work);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 5, 0}, wire::Pull{1, 5, 0}, wire::Pull{2, 5, 0}));
  EXPECT_EQ(protocol_.next_work(), train(5, {0, 4}));
}

TEST_F(SyncProtocolTest, AnIdleWorkerFollowsTheVersionsButDoesNotRunAhead) {
  assign(0, 9, 2, 2);
  EXPECT_FALSE(protocol_.next_work());
  EXPECT_EQ(protocol_.step(), 0);
  deliver_all(0);
  EXPECT_EQ(protocol_.step(), 1);
  deliver_all(1);
  EXPECT_EQ(protocol_.step(), 2);
}

TEST_F(SyncProtocolTest, GoneTellsItWhereTheRunIs) {
  assign(0, 9, 0, 4);
  sent_.clear();
  ASSERT_TRUE(protocol_.on_message(owner(2), wire::Gone{.block = 2, .version = 0, .newest = 4}));
  EXPECT_EQ(protocol_.step(), 3);
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre(wire::Pull{0, 3}, wire::Pull{1, 3}, wire::Pull{2, 3}));
  assign(1, 9, 0, 4);
  EXPECT_EQ(protocol_.step(), 3);
}

TEST_F(SyncProtocolTest, EvaluatesTheVersionThatItHas) {
  assign(0, 1, 0, 4);
  deliver_all(0);
  work_off();
  deliver_all(1);
  sent_.clear();
  assign(1, 2, 0, 2, StepKind::kEval);
  const Work work{StepKind::kEval, 1, {0, 2}};
  ASSERT_EQ(protocol_.next_work(), work);
  protocol_.started(work);
  protocol_.metrics(work, {4, 5, 6});
  protocol_.finished(work);
  EXPECT_THAT(sent_.all<wire::MetricNode>(), ElementsAre(wire::MetricNode{StepKind::kEval, 1, 0, 2, 4, 5, 6}));
  EXPECT_FALSE(protocol_.next_work());
  EXPECT_EQ(protocol_.step(), 1);
  assign(1, 2, 0, 2, StepKind::kEval);
  EXPECT_FALSE(protocol_.next_work()) << "done is done in the next generation too";
  assign(1, 3, 0, 4);
  EXPECT_EQ(protocol_.next_work(), train(1, {0, 4}));
  EXPECT_THAT(sent_.all<wire::Pull>(), ElementsAre());
}

TEST_F(SyncProtocolTest, AChunkThatIsThereIsNotWrittenAgain) {
  assign(0, 9, 0, 4);
  deliver(0, 0, 1);
  deliver(0, 0, 2);
  EXPECT_THAT(memory_[0], testing::Each(1));
}

TEST(SyncProtocolFrozen, IsPulledOnceAndIsEveryVersion) {
  constexpr wire::Rank kServer = 0;
  const ps::BlockTable table({{"still", {10}, ParameterKind::kFrozen}, {"moves", {5}, ParameterKind::kTrainable}}, 1);
  std::vector<float> still(10), moves(5);
  Letters sent;
  SyncProtocol protocol(table,
                          {.server_ranks = {kServer},
                           .coordinator = kServer,
                           .micro_batches = 2,
                           .eval_micro_batches = 0,
                           .memory = {still.data(), moves.data()}},
                          sent);
  const auto give = [&](uint32_t block, int64_t version, std::vector<float> values) {
    ASSERT_TRUE(
        protocol.on_message(kServer, wire::ParameterChunk{block, version, 0}, std::as_bytes(std::span(values))));
  };
  const wire::Assign assign{.generation = 1, .kind = StepKind::kTrain, .from = 3, .until = 6, .first = 0, .last = 0};
  ASSERT_TRUE(protocol.on_message(kServer, assign));
  EXPECT_THAT(sent.all<wire::Pull>(), ElementsAre(wire::Pull{0, 3}, wire::Pull{1, 3}));
  sent.clear();
  give(1, 3, std::vector<float>(5, 1.0F));
  EXPECT_FALSE(protocol.parameter_ready(0, 3));
  // The others are at step 5: the frozen one is under way still, and is not asked for again.
  ASSERT_TRUE(protocol.on_message(
      kServer, wire::Assign{.generation = 2, .kind = StepKind::kTrain, .from = 5, .until = 6, .first = 0, .last = 2}));
  EXPECT_THAT(sent.all<wire::Pull>(), ElementsAre(wire::Pull{1, 5, 3}));
  give(0, 3, std::vector<float>(10, 2.5F));
  EXPECT_TRUE(protocol.parameter_ready(0, 5));
  EXPECT_FALSE(protocol.parameter_ready(1, 5));
  give(1, 5, std::vector<float>(5, 2.0F));
  EXPECT_TRUE(protocol.parameter_ready(1, 5));
  EXPECT_THAT(still, testing::Each(2.5F));
  EXPECT_TRUE(protocol.next_work());
}

TEST_F(SyncProtocolTest, PeersThatBreakTheProtocolAreErrors) {
  assign(0, 9, 0, 4);
  std::vector<float> values(10);
  const ByteSpan payload = as_byte_span(std::span(values));
  EXPECT_FALSE(protocol_.on_message(owner(0), wire::ParameterChunk{.block = 99}, payload));
  EXPECT_FALSE(protocol_.on_message(owner(0), wire::ParameterChunk{.block = 0, .version = 0, .chunk = 1}, payload));
  EXPECT_FALSE(protocol_.on_message(owner(2), wire::ParameterChunk{.block = 2}, payload)) << "10 elements for 5";
  EXPECT_FALSE(protocol_.on_message(1 - owner(0), wire::ParameterChunk{.block = 0}, payload)) << "not its owner";
  EXPECT_FALSE(protocol_.on_message(owner(1), wire::Take{0, 1, 0, 4, 0b100}));
  EXPECT_FALSE(protocol_.on_message(owner(1), wire::Gone{.block = 1, .version = 0, .newest = 0}));
  EXPECT_FALSE(protocol_.on_message(kServer1, wire::Assign{.generation = 9, .from = 0, .until = 1, .last = 1}));
  EXPECT_FALSE(protocol_.on_message(kServer0, wire::Assign{.generation = 9, .from = 0, .until = 1, .last = 5}));
  EXPECT_FALSE(protocol_.on_message(kServer0, wire::Ready{}));
}

}  // namespace
}  // namespace dtrain::worker
