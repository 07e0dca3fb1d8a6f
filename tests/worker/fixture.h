// What the tests of the protocols of other modes than synchronous share: a small model on two servers, and an outbox
// that remembers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "tests/consistency/rule_text.h"
#include "tests/worker/letters.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {

// Parameters, which are blocks too: "small" (10 elements, pushed), "large" (70,000: two chunks, offered), "still" (4,
// frozen). Four micro-batches a step, two an evaluation. Rank 0 coordinates.
class ProtocolFixture : public testing::Test {
 protected:
  static constexpr wire::Rank kCoordinator = 0;
  static constexpr uint32_t kSmall = 0, kLarge = 1, kStill = 2;

  void make(const std::string& mode) {
    sent_.letters.clear();
    generation_ = 0;
    protocol_ = WorkerProtocol::make(table_,
                                     {.server_ranks = {0, 1},
                                      .coordinator = kCoordinator,
                                      .micro_batches = 4,
                                      .eval_micro_batches = 2,
                                      .memory = {memory_[0].data(), memory_[1].data(), memory_[2].data()},
                                      .rule = consistency::rule_of(mode)},
                                     sent_);
  }
  wire::Rank owner(uint32_t block) const { return table_.block(block).server; }
  void say(wire::Rank from, const wire::Message& m) {
    const Status status = protocol_->on_message(from, m);
    ASSERT_TRUE(status) << status.error().message;
  }
  void assign(int64_t from, int64_t until, uint32_t first = 0, uint32_t last = 0,
              wire::StepKind kind = wire::StepKind::kTrain) {
    say(kCoordinator,
        wire::Assign{
            .generation = ++generation_, .kind = kind, .from = from, .until = until, .first = first, .last = last});
  }
  Status chunk(uint32_t block, int64_t version, uint32_t index, float value) {
    const std::vector<float> values(static_cast<size_t>(table_.block(block).chunk_elements(index)), value);
    return protocol_->on_message(owner(block), wire::ParameterChunk{.block = block, .version = version, .chunk = index},
                                 as_byte_span(std::span(values)));
  }
  void deliver(uint32_t block, int64_t version, float value = 0) {
    for (uint32_t i = 0; i < table_.block(block).chunks(); ++i) ASSERT_TRUE(chunk(block, version, i, value));
  }
  void deliver_all(int64_t version, float value = 0) {
    for (uint32_t block = 0; block < 3; ++block) deliver(block, version, value);
  }
  bool ready(int64_t step) const {
    return protocol_->parameter_ready(0, step) && protocol_->parameter_ready(1, step) &&
           protocol_->parameter_ready(2, step);
  }
  bool large_is(float value) const {
    return std::ranges::all_of(memory_[kLarge], [&](float v) { return v == value; });
  }
  // Computes the next work; what it gives is in gradients_.
  Work compute(double loss = 1) {
    const std::optional<Work> work = protocol_->next_work();
    if (!work) {
      ADD_FAILURE() << "there is no work";
      return {};
    }
    protocol_->started(*work);
    protocol_->metrics(*work, {loss, 2, 1});
    if (work->kind == wire::StepKind::kTrain && work->push) {
      auto owner = std::make_shared<std::vector<float>>(70'000, 0.5F);
      protocol_->gradient(*work, {0, 0, 10, owner->data()}, owner);
      protocol_->gradient(*work, {1, 0, 70'000, owner->data()}, owner);
    }
    protocol_->finished(*work);
    return *work;
  }
  void absorb(uint32_t block, int64_t step, uint32_t micro_batch, int64_t version, bool dropped = false) {
    say(owner(block), wire::Absorbed{step, block, micro_batch, micro_batch + 1, version, dropped});
  }

  const ps::BlockTable table_{{{"small", {10}, ParameterKind::kTrainable},
                               {"large", {70'000}, ParameterKind::kTrainable},
                               {"still", {4}, ParameterKind::kFrozen}},
                              2};
  std::vector<std::vector<float>> memory_{std::vector<float>(10), std::vector<float>(70'000), std::vector<float>(4)};
  Letters sent_;
  std::unique_ptr<WorkerProtocol> protocol_;
  uint32_t generation_ = 0;
};

inline Work train(int64_t step, ps::Node node, bool push = true) { return {wire::StepKind::kTrain, step, node, push}; }

}  // namespace dtrain::worker
