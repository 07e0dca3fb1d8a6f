// Between a worker's exchange of rows and two shard servers that keep them.
#include "worker/row_exchange.h"

#include <gtest/gtest.h>

#include "tests/worker/letters.h"
#include "worker/sync_protocol.h"

namespace dtrain::worker {
namespace {

constexpr wire::Rank kFirst = 3, kSecond = 5;

std::vector<ParameterInfo> tables() {
  return {{"a", {100'000, 3}, ParameterKind::kSparse}, {"b", {50, 1}, ParameterKind::kSparse}};
}
float value_of(uint64_t row, int64_t column) { return static_cast<float>(row) + 0.25f * static_cast<float>(column); }

class RowExchangeTest : public testing::Test {
 protected:
  // What a server answers to a pull.
  Status answer(wire::Rank from, const wire::RowPull& pull) {
    std::vector<float> values;
    for (uint64_t row : pull.rows)
      for (int64_t c = 0; c < space_.tables()[space_.table_of(row)].width; ++c) values.push_back(value_of(row, c));
    return exchange_.on(from, wire::Rows{pull.round, pull.part, pull.version}, std::as_bytes(std::span(values)));
  }
  void pull(int64_t version, const std::vector<uint64_t>& rows) {
    memory_[0].assign(rows.size() * 3, -1.0f);
    memory_[1].assign(rows.size(), -1.0f);
    float* into[] = {memory_[0].data(), memory_[1].data()};
    exchange_.pull(version, rows, into);
  }

  const ps::RowSpace space_{tables(), 2};
  Letters sent_;
  RowExchange exchange_{space_, {kFirst, kSecond}, sent_};
  std::vector<float> memory_[2];
  const Work work_{wire::StepKind::kTrain, 4, {0, 1}};
};

TEST_F(RowExchangeTest, PutsRowsWhereTheyBelongInAnyOrderOfAnswers) {
  std::vector<uint64_t> rows;
  for (uint64_t r = 0; r < 60'000; ++r) rows.push_back(r + r / 3);
  for (uint64_t r = 0; r < 50; r += 7) rows.push_back(100'000 + r);
  pull(4, rows);
  auto pulls = sent_.take_addressed<wire::RowPull>();
  EXPECT_GE(pulls.size(), 4u) << "they do not fit into one message a server";
  std::reverse(pulls.begin(), pulls.end());
  for (const auto& [to, m] : pulls) {
    EXPECT_FALSE(exchange_.arrived());
    for (uint64_t row : m.rows) EXPECT_EQ(space_.server_of(row), to == kFirst ? 0u : 1u);
    ASSERT_TRUE(answer(to, m));
    ASSERT_TRUE(answer(to, m)) << "twice is no harm";
  }
  EXPECT_TRUE(exchange_.arrived());
  size_t in_a = 0, in_b = 0;
  for (uint64_t row : rows) {
    if (row < 100'000) {
      for (int64_t c = 0; c < 3; ++c) ASSERT_EQ(memory_[0][in_a * 3 + static_cast<size_t>(c)], value_of(row, c));
      ++in_a;
    } else {
      ASSERT_EQ(memory_[1][in_b++], value_of(row, 0));
    }
  }
}

TEST_F(RowExchangeTest, EveryServerIsAskedForSomethingIfOnlyNothing) {
  pull(4, {});
  const auto pulls = sent_.take_addressed<wire::RowPull>();
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_FALSE(exchange_.arrived());
  for (const auto& [to, m] : pulls) ASSERT_TRUE(answer(to, m));
  EXPECT_TRUE(exchange_.arrived());
  float none = 0;
  const float* gradients[] = {&none, &none};
  exchange_.push(work_, 0, {}, gradients);
  EXPECT_EQ(sent_.take_addressed<wire::RowPush>().size(), 2u);
  EXPECT_EQ(exchange_.unanswered(work_), 2u);
}

TEST_F(RowExchangeTest, AnswersToEarlierPullsAreOfNoUse) {
  pull(4, {1, 2, 3});
  const auto old = sent_.take_addressed<wire::RowPull>();
  pull(5, {7, 8, 9});
  for (const auto& [to, m] : old) ASSERT_TRUE(answer(to, m));
  EXPECT_FALSE(exchange_.arrived());
  EXPECT_EQ(memory_[0][0], -1.0f);
  const auto now = sent_.take_addressed<wire::RowPull>();
  exchange_.forget();
  for (const auto& [to, m] : now) ASSERT_TRUE(answer(to, m));
  EXPECT_EQ(memory_[0][0], -1.0f) << "after forget() nothing is written";
}

TEST_F(RowExchangeTest, GradientsGoToTheirServersInParts) {
  std::vector<uint64_t> rows;
  for (uint64_t r = 0; r < 70'000; ++r) rows.push_back(r);
  rows.push_back(100'003);
  std::vector<float> a, b{42.0f};
  for (uint64_t r = 0; r < 70'000; ++r)
    for (int64_t c = 0; c < 3; ++c) a.push_back(value_of(r, c));
  const float* gradients[] = {a.data(), b.data()};
  exchange_.push(work_, 2, rows, gradients);
  std::map<wire::Rank, uint32_t> parts;
  size_t pushed = 0;
  for (const Letters::Letter& l : sent_.letters) {
    const auto& m = std::get<wire::RowPush>(l.message);
    EXPECT_EQ(m.step, 4);
    EXPECT_EQ(m.micro_batch, 2u);
    EXPECT_EQ(m.part, parts[l.to]++);
    ASSERT_LE(l.payload.bytes.size(), size_t{256} << 10);
    const auto* values = reinterpret_cast<const float*>(l.payload.bytes.data());
    for (uint64_t row : m.rows) {
      ASSERT_EQ(space_.server_of(row), l.to == kFirst ? 0u : 1u);
      ASSERT_EQ(*values, row == 100'003 ? 42.0f : value_of(row, 0));
      values += row == 100'003 ? 1 : 3;
    }
    pushed += m.rows.size();
  }
  EXPECT_EQ(pushed, rows.size());
  for (const Letters::Letter& l : sent_.letters) EXPECT_EQ(std::get<wire::RowPush>(l.message).parts, parts[l.to]);
  // A server answers once, for all parts.
  EXPECT_EQ(exchange_.unanswered(), 2u);
  EXPECT_EQ(**exchange_.on(kFirst, wire::RowsTaken{4, 2, 4}), work_);
  EXPECT_EQ(exchange_.unanswered(work_), 1u);
  EXPECT_FALSE(*exchange_.on(kFirst, wire::RowsTaken{4, 2, 4})) << "it has answered";
  EXPECT_EQ(**exchange_.on(kSecond, wire::RowsTaken{4, 2, 5}), work_);
  EXPECT_EQ(exchange_.unanswered(), 0u);
}

TEST_F(RowExchangeTest, WhatNobodyAskedForIsAnError) {
  pull(4, {1, 2, 3});
  const auto pulls = sent_.take_addressed<wire::RowPull>();
  const wire::RowPull& m = pulls[0].second;
  const std::vector<float> values(100);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_FALSE(exchange_.on(9, wire::Rows{m.round, 0, 4}, bytes.first(12 * m.rows.size())));
  EXPECT_FALSE(exchange_.on(kFirst, wire::Rows{m.round, 9, 4}, {}));
  EXPECT_FALSE(exchange_.on(kFirst, wire::Rows{m.round, 0, 3}, bytes.first(12 * m.rows.size())));
  EXPECT_FALSE(exchange_.on(kFirst, wire::Rows{m.round, 0, 4}, bytes));
  EXPECT_FALSE(exchange_.on(kFirst, wire::RowsGone{m.round, 4, 4}));
  EXPECT_EQ(**exchange_.on(kFirst, wire::RowsGone{m.round, 4, 7}), 7);
  EXPECT_FALSE(*exchange_.on(kFirst, wire::RowsGone{m.round - 1, 4, 7}));
}

// A block at the next version does not say that all rows have it: a worker that ran ahead turns back for a share.
TEST(SyncProtocolWithRows, TurnsBackForAShareOfTheStepBefore) {
  Letters sent;
  std::vector<float> memory(4);
  const ps::BlockTable table({{"t", {10, 2}, ParameterKind::kSparse}, {"fc", {4}, ParameterKind::kTrainable}}, 1);
  SyncProtocol protocol(
      table, {.server_ranks = {0}, .coordinator = 0, .micro_batches = 2, .memory = {nullptr, memory.data()}}, sent);
  const auto assign = [&](uint32_t generation, int64_t from, uint32_t first, uint32_t last) {
    ASSERT_TRUE(protocol.on_message(0, wire::Assign{.generation = generation,
                                                    .kind = wire::StepKind::kTrain,
                                                    .from = from,
                                                    .until = 5,
                                                    .first = first,
                                                    .last = last}));
  };
  const auto give = [&](int64_t version) {
    ASSERT_TRUE(protocol.on_message(0, wire::ParameterChunk{.block = 0, .version = version, .chunk = 0},
                                    std::as_bytes(std::span(memory))));
  };
  assign(1, 0, 0, 1);
  give(0);
  const auto work = protocol.next_work();
  ASSERT_TRUE(work);
  protocol.started(*work);
  float row[2] = {};
  float* into[] = {row};
  protocol.pull_rows(*work, std::vector<uint64_t>{4}, into);
  EXPECT_FALSE(protocol.rows_ready());
  const std::vector<float> values{1, 2};
  const auto pull = sent.take_addressed<wire::RowPull>().at(0).second;
  ASSERT_TRUE(protocol.on_message(0, wire::Rows{pull.round, pull.part, 0}, std::as_bytes(std::span(values))));
  EXPECT_TRUE(protocol.rows_ready());
  EXPECT_EQ(row[1], 2.0f);
  protocol.metrics(*work, {});
  const float* gradients[] = {row};
  protocol.push_rows(*work, 0, std::vector<uint64_t>{4}, gradients);
  protocol.gradient(*work, {1, 0, 4, memory.data()}, nullptr);
  protocol.finished(*work);
  ASSERT_TRUE(protocol.on_message(0, wire::Absorbed{.step = 0, .block = 0, .first = 0, .last = 1, .version = 0}));
  EXPECT_TRUE(sent.take_addressed<wire::WorkDone>().empty()) << "the rows are not taken";
  ASSERT_TRUE(protocol.on_message(0, wire::RowsTaken{0, 0, 0}));
  EXPECT_EQ(sent.take_addressed<wire::WorkDone>().size(), 1u);
  give(1);  // the block's other micro-batch came from a worker that died before its rows did
  ASSERT_TRUE(protocol.next_work());
  EXPECT_EQ(protocol.next_work()->step, 1);
  assign(2, 0, 0, 2);
  ASSERT_EQ(protocol.step(), 0);
  give(0);
  ASSERT_TRUE(protocol.next_work());
  EXPECT_EQ(*protocol.next_work(), (Work{wire::StepKind::kTrain, 0, {1, 2}}));
}

}  // namespace
}  // namespace dtrain::worker
