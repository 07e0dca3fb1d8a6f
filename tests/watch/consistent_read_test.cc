#include "watch/consistent_read.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/watch/small_cluster.h"

namespace dtrain::watch {
namespace {

using testing::HasSubstr;

// A guest between it and the desks of a small cluster; messages travel when the test says so.
class ConsistentReadTest : public testing::Test {
 protected:
  void open(bool gradient = false, std::optional<int64_t> version = std::nullopt) {
    ConsistentRead::Options options;
    options.servers = run->all.size();
    options.gradient = gradient;
    options.version = version;
    for (uint32_t i = 0; i < run->table.parameters().size(); ++i) {
      const ParameterInfo& p = run->table.parameters()[i];
      if (!gradient || p.kind == ParameterKind::kTrainable) options.wanted.push_back({i, p.name, p.shape.elements()});
    }
    reading = std::make_unique<ConsistentRead>(
        options,
        [this](size_t s, wire::Message m) {
          asked.push_back({s, std::move(m)});
        },
        run->now);
  }
  // Questions reach one server, or all.
  void ask(std::optional<size_t> only = std::nullopt) {
    std::deque<std::pair<size_t, wire::Message>> later;
    std::swap(later, asked);
    for (auto& [s, m] : later) {
      if (only && s != *only)
        asked.emplace_back(s, std::move(m));
      else
        ASSERT_TRUE(run->guest(static_cast<uint32_t>(s), m));
    }
  }
  // Answers reach the guest.
  Status answer() {
    for (size_t s = 0; s < run->all.size(); ++s) {
      auto& sent = run->all[s]->transport.sent;
      std::deque<ps::Sent> mine;
      std::swap(mine, sent);
      // Control may overtake tensors.
      std::stable_partition(mine.begin(), mine.end(), [](const ps::Sent& m) { return m.payload.bytes.empty(); });
      for (const ps::Sent& m : mine)
        if (m.to == kGuest) DTRAIN_TRY(reading->on_message(s, m.message, m.payload.bytes, run->now));
    }
    return {};
  }
  void expect_version(int64_t version, const ps::Oracle& oracle) {
    ASSERT_TRUE(reading->done());
    EXPECT_EQ(reading->version(), version);
    for (uint32_t i = 0; i < run->table.parameters().size(); ++i) {
      std::vector<float> truth;
      for (const uint32_t b : run->table.of_parameter(static_cast<ParameterIndex>(i)))
        truth.insert(truth.end(), oracle.values[b].begin(), oracle.values[b].end());
      EXPECT_TRUE(ps::same_bits(reading->values(i), truth)) << i;
    }
  }

  std::unique_ptr<SmallCluster> run = std::make_unique<SmallCluster>(3);
  std::unique_ptr<ConsistentRead> reading;
  std::deque<std::pair<size_t, wire::Message>> asked;
};

TEST_F(ConsistentReadTest, ReadsWhereTheRunStands) {
  run->step(0);
  open();
  ask();
  ASSERT_TRUE(answer());
  ask();
  ASSERT_TRUE(answer());
  expect_version(1, run->oracle);
}

TEST_F(ConsistentReadTest, AStepBetweenQuestionAndAnswerDoesNotMatter) {
  open();
  ask(0);
  run->step(0);
  ask();
  ASSERT_TRUE(answer());  // one stood at 0, the others at 1; all have version 0 still
  ask();
  ASSERT_TRUE(answer());
  ASSERT_TRUE(reading->done());
  EXPECT_EQ(reading->version(), 0);
}

TEST_F(ConsistentReadTest, ARunThatIsFasterThanMessagesIsReadAhead) {
  int64_t at = 0;
  open();
  for (int round = 0; round < 30 && !reading->done(); ++round) {
    for (size_t s = 0; s < run->all.size(); ++s) {
      run->step(at++);  // one server is asked in every step
      ask(s);
      if (reading->done()) break;
    }
    ASSERT_TRUE(answer());
  }
  ASSERT_TRUE(reading->done());
  // The same steps without anybody who looks on.
  SmallCluster again(3);
  for (int64_t s = 0; s < reading->version(); ++s) again.step(s);
  expect_version(reading->version(), again.oracle);
}

TEST_F(ConsistentReadTest, ARunThatStopsBeforeTheVersionAheadIsReadWhereItStands) {
  int64_t at = 0;
  open();
  ask();
  ASSERT_TRUE(answer());
  while (at < 4) run->step(at++);  // what it asks for now is gone
  ask();
  ASSERT_TRUE(answer());
  ask();
  ASSERT_TRUE(answer());  // waits for version 5, which never comes
  ask();
  for (int i = 0; i < 10 && !reading->done(); ++i) {
    run->now += kSecond;
    reading->on_tick(run->now);
    ask();
    ASSERT_TRUE(answer());
    ask();
    ASSERT_TRUE(answer());
  }
  expect_version(4, run->oracle);
}

TEST_F(ConsistentReadTest, OrdersAtRandom) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  for (int trial = 0; trial < 20; ++trial) {
    run = std::make_unique<SmallCluster>(3);
    asked.clear();
    int64_t at = 0;
    std::vector<std::vector<std::vector<float>>> history{run->oracle.values};
    open();
    for (int i = 0; i < 2000 && !reading->done(); ++i) {
      run->now += 20 * kMillisecond;
      reading->on_tick(run->now);
      switch (draw() % 4) {
        case 0:
          run->step(at++);
          history.push_back(run->oracle.values);
          break;
        case 1:
          ask(draw() % 3);
          break;
        case 2:
          ask();
          break;
        default:
          ASSERT_TRUE(answer());
      }
    }
    ASSERT_TRUE(reading->done());
    run->oracle.values = history.at(static_cast<size_t>(reading->version()));
    expect_version(reading->version(), run->oracle);
  }
}

TEST_F(ConsistentReadTest, AVersionThatWasNamed) {
  for (int64_t s = 0; s < 4; ++s) run->step(s);
  open(false, 2);
  ask();
  ASSERT_TRUE(answer());
  ask();
  const Status gone = answer();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ExitCode::kUsage);
  EXPECT_THAT(gone.error().message, HasSubstr("version 2 is no longer kept, the run is at 4"));

  open(false, 6);
  ask();
  ASSERT_TRUE(answer());
  ask();
  ASSERT_TRUE(answer());
  run->step(4);
  run->step(5);
  ASSERT_TRUE(answer());
  expect_version(6, run->oracle);
}

TEST_F(ConsistentReadTest, WhereBlocksHaveVersionsOfTheirOwnThereIsNoneToName) {
  for (const bool gradient : {false, true}) {
    open(gradient, 6);
    Status told;
    for (size_t s = 0; s < run->all.size() && told; ++s)
      told = reading->on_message(s, wire::Standing{1, 4, 0}, {}, run->now);
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, ExitCode::kUsage);
    EXPECT_THAT(told.error().message, HasSubstr(gradient ? "no gradient of a step" : "leave --version out"));
  }
}

TEST_F(ConsistentReadTest, GradientsAreOfOneStep) {
  run->step(0);
  open(true);
  ask();
  ASSERT_TRUE(answer());
  ask();
  for (int64_t s = 1; s < 4; ++s) run->step(s);
  ASSERT_TRUE(answer());
  ASSERT_TRUE(reading->done());
  EXPECT_EQ(reading->version(), 2);
  std::vector<float> truth = run->facts.root(2, 1);
  for (float& x : truth) x /= SmallCluster::kMicroBatches;
  EXPECT_TRUE(ps::same_bits(reading->values(1), truth));
}

TEST_F(ConsistentReadTest, WhatNobodyAskedForIsAnError) {
  open();
  ask();
  ASSERT_TRUE(answer());
  const std::vector<float> some(10);
  const ByteSpan bytes = std::as_bytes(std::span(some));
  EXPECT_TRUE(reading->on_message(0, wire::TensorChunk{99, 0, 0, 0}, bytes, run->now));  // of another request
  EXPECT_FALSE(reading->on_message(0, wire::TensorChunk{1, 0, 0, 495}, bytes, run->now));
  EXPECT_FALSE(reading->on_message(0, wire::TensorChunk{1, 0, 7, 0}, bytes, run->now));
  EXPECT_FALSE(reading->on_message(0, wire::TensorChunk{1, 9, 0, 0}, bytes, run->now));
}

}  // namespace
}  // namespace dtrain::watch
