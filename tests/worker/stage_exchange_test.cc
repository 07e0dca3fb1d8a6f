#include "worker/stage_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "ps/block_table.h"

namespace dtrain::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::StepKind;

constexpr wire::Rank kAbove = 3, kBelow = 5, kFar = 6;
constexpr size_t kPiece = static_cast<size_t>(ps::kChunkElements) * sizeof(float);
constexpr size_t kSmall = 8, kLarge = kPiece + 4;

struct Sent final : wire::Outbox {
  struct Letter {
    wire::Rank to;
    wire::Message message;
    wire::Payload payload;
  };
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
    letters.push_back({to, std::move(message), std::move(payload)});
  }
  template <typename M>
  std::vector<M> to(wire::Rank rank) const {
    std::vector<M> out;
    for (const Letter& letter : letters)
      if (const M* m = std::get_if<M>(&letter.message); m && letter.to == rank) out.push_back(*m);
    return out;
  }
  std::deque<Letter> letters;
};

// A stage in the middle: an activation of two pieces (value 10) comes from above, its gradient (31) goes there; value
// 20 goes to two stages below, whence its gradient (30) comes.
class StageExchangeTest : public testing::Test {
 protected:
  StageExchangeTest() : exchange_(2, sent_) {
    exchange_.connect({.micro_batches = 4,
                       .imports = {{10, kAbove, kLarge}, {30, kBelow, kSmall}},
                       .exports = {{20, {kBelow, kFar}}, {31, {kAbove}}}},
                      {.micro_batches = 3, .imports = {{110, kAbove, kSmall}}, .exports = {{120, {kBelow}}}});
  }

  Status piece(wire::Rank from, uint32_t value, uint32_t micro_batch, uint32_t piece, size_t bytes, char fill = 'x',
               int64_t step = 7, StepKind kind = StepKind::kTrain) {
    const std::string payload(bytes, fill);
    return exchange_.on_message(
        from, wire::StageValue{.kind = kind, .step = step, .micro_batch = micro_batch, .value = value, .piece = piece},
        std::as_bytes(std::span(payload)));
  }
  void activation(uint32_t micro_batch, char fill = 'x', int64_t step = 7) {
    ASSERT_TRUE(piece(kAbove, 10, micro_batch, 0, kPiece, fill, step));
    ASSERT_TRUE(piece(kAbove, 10, micro_batch, 1, 4, fill, step));
  }
  void done_by(wire::Rank reader, uint32_t micro_batches, int64_t step = 7, StepKind kind = StepKind::kTrain) {
    const Status status =
        exchange_.on_message(reader, wire::StageDone{.kind = kind, .step = step, .micro_batches = micro_batches}, {});
    ASSERT_TRUE(status) << status.error().message;
  }
  static Work train(int64_t step = 7) { return {StepKind::kTrain, step, {0, 4}}; }

  Sent sent_;
  StageExchange exchange_;
};

TEST_F(StageExchangeTest, AValueIsThereWhenItsLastPieceIs) {
  exchange_.begin(train());
  ASSERT_TRUE(piece(kAbove, 10, 1, 0, kPiece, 'a'));
  EXPECT_EQ(exchange_.find(1, 0), nullptr);
  ASSERT_TRUE(piece(kAbove, 10, 1, 1, 4, 'b'));
  const auto* bytes = static_cast<const char*>(exchange_.find(1, 0));
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0u) << "kernels read it where it lies";
  EXPECT_EQ(std::string(bytes, kLarge), std::string(kPiece, 'a') + "bbbb");
  EXPECT_EQ(exchange_.find(0, 0), nullptr);
  EXPECT_EQ(exchange_.find(1, 1), nullptr);
}

TEST_F(StageExchangeTest, WhatIsSentGoesInPiecesToEachReader) {
  exchange_.begin(train());
  std::string value(kLarge, 'a');
  exchange_.send(2, 0, std::as_bytes(std::span(value)));
  value.assign(kLarge, 'z');  // its memory is used again at once
  const wire::StageValue first{.kind = StepKind::kTrain, .step = 7, .micro_batch = 2, .value = 20, .piece = 0};
  wire::StageValue second = first;
  second.piece = 1;
  EXPECT_THAT(sent_.to<wire::StageValue>(kBelow), ElementsAre(first, second));
  EXPECT_THAT(sent_.to<wire::StageValue>(kFar), ElementsAre(first, second));
  EXPECT_TRUE(sent_.to<wire::StageValue>(kAbove).empty());
  size_t bytes = 0;
  for (const Sent::Letter& letter : sent_.letters) {
    EXPECT_LE(letter.payload.bytes.size(), kPiece);
    bytes += letter.payload.bytes.size();
    for (const std::byte b : letter.payload.bytes) ASSERT_EQ(b, std::byte{'a'});
  }
  EXPECT_EQ(bytes, 2 * kLarge);
}

TEST_F(StageExchangeTest, NobodyRunsAheadOfItsReaders) {
  exchange_.begin(train());
  EXPECT_TRUE(exchange_.may_start(0));
  EXPECT_TRUE(exchange_.may_start(1));
  EXPECT_FALSE(exchange_.may_start(2));
  done_by(kBelow, 1);
  done_by(kFar, 2);
  EXPECT_FALSE(exchange_.may_start(2)) << "who is above reads gradients";
  done_by(kAbove, 1);
  EXPECT_TRUE(exchange_.may_start(2));
  EXPECT_FALSE(exchange_.may_start(3));
  // Nor from step to step.
  exchange_.done(4);
  exchange_.end();
  exchange_.begin(train(8));
  EXPECT_FALSE(exchange_.may_start(0));
  for (const wire::Rank reader : {kAbove, kBelow}) done_by(reader, 4);
  EXPECT_FALSE(exchange_.may_start(0));
  done_by(kFar, 4);
  EXPECT_TRUE(exchange_.may_start(0));
}

TEST_F(StageExchangeTest, WhoIsDoneSaysSo) {
  exchange_.begin(train());
  activation(0);
  exchange_.done(1);
  const wire::StageDone said{.kind = StepKind::kTrain, .step = 7, .micro_batches = 1};
  EXPECT_THAT(sent_.to<wire::StageDone>(kAbove), ElementsAre(said));
  EXPECT_THAT(sent_.to<wire::StageDone>(kBelow), ElementsAre(said));
  EXPECT_TRUE(sent_.to<wire::StageDone>(kFar).empty()) << "it makes nothing that this stage reads";
  EXPECT_EQ(exchange_.find(0, 0), nullptr);
}

TEST_F(StageExchangeTest, ValuesOfALaterStepWait) {
  activation(0, 'a');  // before the work has begun here
  exchange_.begin(train());
  EXPECT_NE(exchange_.find(0, 0), nullptr);
  activation(1, 'b', 8);
  exchange_.done(4);
  activation(3, 'c');  // of what is done: dropped
  exchange_.end();
  activation(2, 'd');
  exchange_.begin(train(8));
  ASSERT_NE(exchange_.find(1, 0), nullptr);
  EXPECT_EQ(*static_cast<const char*>(exchange_.find(1, 0)), 'b');
  EXPECT_EQ(exchange_.find(0, 0), nullptr);
  EXPECT_EQ(exchange_.find(2, 0), nullptr);
}

TEST_F(StageExchangeTest, AnEvaluationOfAVersionComesBeforeItsStep) {
  ASSERT_TRUE(piece(kAbove, 110, 0, 0, kSmall, 'e', 7, StepKind::kEval));
  exchange_.begin({StepKind::kEval, 7, {0, 3}});
  EXPECT_NE(exchange_.find(0, 0), nullptr);
  activation(0);
  exchange_.end();  // left in its middle: who sent for it need not wait
  EXPECT_THAT(sent_.to<wire::StageDone>(kAbove),
              ElementsAre(wire::StageDone{.kind = StepKind::kEval, .step = 7, .micro_batches = 3}));
  exchange_.begin(train());
  EXPECT_NE(exchange_.find(0, 0), nullptr);
  EXPECT_TRUE(exchange_.may_start(0)) << "nor is it known that others ended theirs";
}

TEST_F(StageExchangeTest, WhatCannotBeIsRefused) {
  exchange_.begin(train());
  const auto refused = [](const Status& status) {
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(refused(piece(kBelow, 10, 0, 0, kPiece)), HasSubstr("task 5 sent what it does not have to send"));
  EXPECT_THAT(refused(piece(kAbove, 11, 0, 0, kPiece)), HasSubstr("value 11"));
  refused(piece(kAbove, 110, 0, 0, kSmall));  // of evaluations
  refused(piece(kAbove, 10, 4, 0, kPiece));
  refused(piece(kAbove, 10, 0, 0, kPiece, 'x', -1));
  refused(piece(kAbove, 10, 0, 1, 4));
  refused(piece(kAbove, 10, 0, 0, kPiece - 4));
  refused(piece(kAbove, 10, 0, 0, 0));
  refused(piece(kAbove, 10, 0, 0xffffffff, kPiece));
  activation(0);
  EXPECT_THAT(refused(piece(kAbove, 10, 0, 2, 4)), HasSubstr("4 bytes as piece 2 of value 10 of micro-batch 0"));
  refused(piece(kAbove, 10, 0, 0, kPiece));
  for (const auto& [from, micro_batches] : {std::pair{kBelow, 0u}, {kBelow, 5u}, {wire::Rank{9}, 1u}})
    refused(exchange_.on_message(
        from, wire::StageDone{.kind = StepKind::kTrain, .step = 7, .micro_batches = micro_batches}, {}));
  refused(exchange_.on_message(kAbove, wire::Ready{}, {}));
}

TEST_F(StageExchangeTest, APeerCannotFillTheMemory) {
  exchange_.begin(train());
  uint32_t held = 0;
  for (int64_t step = 7; step < 100; ++step)
    for (uint32_t m = 0; m < 4; ++m) held += piece(kAbove, 10, m, 0, kPiece, 'x', step).has_value();
  EXPECT_LE(held, 3u);
  ASSERT_TRUE(piece(kBelow, 30, 0, 0, kSmall)) << "others may still send";
}

}  // namespace
}  // namespace dtrain::worker
