#include "ps/shard_server.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "fixture.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {
namespace {

using testing::HasSubstr;

constexpr wire::Rank kCoordinator = 0, kWorker = 10, kOther = 11;

// One server, or several, of the small model, with everything that a test pokes at.
class ShardServerTest : public testing::Test {
 protected:
  void make(uint32_t k, uint32_t count = 1, bool clips = false,
            const std::string& optimizer_toml = "momentum = 0.9\nweight_decay = 0.01",
            std::vector<float*> in_place = {}, size_t pool_bytes = size_t{1} << 30) {
    micro_batches = k;
    table = std::make_unique<BlockTable>(model, count);
    optimizer = make_optimizer(optimizer_toml);
    facts = std::make_unique<Facts>(*table, k);
    oracle = std::make_unique<Oracle>(*table, *optimizer, *facts, k);
    servers.clear();
    for (uint32_t s = 0; s < count; ++s) {
      servers.push_back(std::make_unique<ShardServer>(
          *table, s,
          ShardServerOptions{k, norm_rounds(clips, optimizer->norm_need()), pool_bytes, kCoordinator, in_place},
          *optimizer, outbox, sink));
      load_all(*servers.back(), s, *table, *oracle);
    }
  }
  void start(int64_t version = 0) {
    for (auto& s : servers) s->start(version);
  }
  ShardServer& of_block(uint32_t b) { return *servers[table->block(b).server]; }

  void ok(ShardServer& server, wire::Rank from, const wire::Message& m, ByteSpan payload = {}) {
    const Status status = server.on_message(from, m, payload);
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  void give(int64_t step, uint32_t b, uint32_t chunk, const Node& node, wire::Rank from = kWorker) {
    ok(of_block(b), from, wire::NodeChunk{step, b, node.first, node.last, chunk}, facts->chunk(step, b, node, chunk));
  }
  // Offers a node (where the block is large) and gives all that is asked for.
  void offer_and_give(int64_t step, uint32_t b, const Node& node, wire::Rank from = kWorker) {
    if (table->block(b).pushed()) return give(step, b, 0, node, from);
    ok(of_block(b), from, wire::Offer{step, b, node.first, node.last});
    for (const auto& [to, take] : outbox.all<wire::Take>())
      for (uint32_t c = 0; c < table->block(b).chunks(); ++c)
        if (take.chunks & (1u << c)) give(step, b, c, node, to);
  }
  void whole_step(int64_t step) {
    for (uint32_t b = 0; b < table->blocks().size(); ++b) offer_and_give(step, b, {0, micro_batches});
  }
  void expect_oracle() {
    for (uint32_t b = 0; b < table->blocks().size(); ++b)
      EXPECT_TRUE(same_bits(of_block(b).values(b), oracle->values[b])) << "block " << b;
  }
  std::string error(wire::Rank from, const wire::Message& m, ByteSpan payload = {}) {
    const Status status = servers[0]->on_message(from, m, payload);
    return status ? "" : status.error().message;
  }

  uint32_t micro_batches = 1;
  std::vector<ParameterInfo> model = small_model();
  std::unique_ptr<BlockTable> table;
  std::shared_ptr<const optim::Optimizer> optimizer;
  std::unique_ptr<Facts> facts;
  std::unique_ptr<Oracle> oracle;
  FakeOutbox outbox;
  FakeSink sink;
  std::vector<std::unique_ptr<ShardServer>> servers;
};

TEST_F(ShardServerTest, AsksOnlyForTheChunksThatAreMissing) {
  make(2);
  start();
  ok(*servers[0], kCoordinator, rates(0, 1));
  ok(*servers[0], kWorker, wire::Offer{0, 1, 0, 2});
  EXPECT_EQ(outbox.all<wire::Take>().at(0).second, (wire::Take{0, 1, 0, 2, 0b11}));
  give(0, 1, 1, {0, 2});
  EXPECT_TRUE(outbox.all<wire::Absorbed>().empty());
  servers[0]->peer_lost(kWorker);
  ok(*servers[0], kOther, wire::Offer{0, 1, 0, 2});
  const auto takes = outbox.all<wire::Take>();
  ASSERT_EQ(takes.size(), 1u);
  EXPECT_EQ(takes[0].first, kOther);
  EXPECT_EQ(takes[0].second.chunks, 0b01u);
  give(0, 1, 0, {0, 2}, kOther);
  EXPECT_EQ(outbox.all<wire::Absorbed>().size(), 1u);
  oracle->step(0, rate_of(0));
  EXPECT_TRUE(same_bits(servers[0]->values(1), oracle->values[1]));
}

TEST_F(ShardServerTest, ANodeOfAnOlderStepIsAcknowledgedAndDropped) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 2));
  whole_step(0);
  outbox.sent.clear();
  ok(*servers[0], kOther, wire::Offer{0, 1, 0, 1});
  give(0, 0, 0, {0, 1}, kOther);
  EXPECT_EQ(outbox.all<wire::Absorbed>().size(), 2u);
  EXPECT_TRUE(outbox.sent.empty());
  EXPECT_EQ(servers[0]->counters().duplicates, 2u);
  oracle->step(0, rate_of(0));
  expect_oracle();
}

TEST_F(ShardServerTest, ANodeOfAStepAheadIsIgnored) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 9));
  ok(*servers[0], kWorker, wire::Offer{1, 1, 0, 1});
  give(1, 0, 0, {0, 1});
  EXPECT_TRUE(outbox.sent.empty());
  EXPECT_EQ(servers[0]->counters().ignored, 2u);
  EXPECT_EQ(servers[0]->version(), 0);
}

TEST_F(ShardServerTest, WaitsForTheRate) {
  make(3);
  start();
  whole_step(0);
  EXPECT_TRUE(outbox.all<wire::Committed>().empty());
  EXPECT_EQ(outbox.all<wire::Absorbed>().size(), 4u) << "sums are taken in without the rate";
  expect_oracle();
  ok(*servers[0], kCoordinator, rates(0, 1));
  EXPECT_EQ(outbox.all<wire::Committed>().at(0).second.version, 1);
  oracle->step(0, rate_of(0));
  expect_oracle();
}

TEST_F(ShardServerTest, AnEmptyServerCommitsWhenItKnowsTheRate) {
  make(1, 6);
  start();
  ASSERT_TRUE(table->of_server(5).empty());
  ok(*servers[5], kCoordinator, rates(0, 2));
  const auto committed = outbox.all<wire::Committed>();
  ASSERT_EQ(committed.size(), 2u);
  EXPECT_EQ(committed[1].second.version, 2);
}

TEST_F(ShardServerTest, PulledBlocksComeAtOnceOrWhenTheyAreCommitted) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 3));
  ok(*servers[0], kWorker, wire::Pull{1, 0});
  ASSERT_EQ(outbox.sent.size(), 2u);
  for (uint32_t c = 0; c < 2; ++c) {
    EXPECT_EQ(outbox.sent[c].message, wire::Message(wire::ParameterChunk{1, 0, c}));
    const float* start = oracle->values[1].data() + c * kChunkElements;
    EXPECT_EQ(std::memcmp(outbox.sent[c].payload.bytes.data(), start, outbox.sent[c].payload.bytes.size()), 0);
  }
  EXPECT_EQ(outbox.sent[0].payload.bytes.size() + outbox.sent[1].payload.bytes.size(), 68000 * sizeof(float));
  outbox.sent.clear();

  ok(*servers[0], kWorker, wire::Pull{1, 1});
  ok(*servers[0], kOther, wire::Pull{1, 1});
  ok(*servers[0], kWorker, wire::Pull{3, 2});  // replaced by the next
  ok(*servers[0], kWorker, wire::Pull{3, 1});
  EXPECT_TRUE(outbox.sent.empty());
  offer_and_give(0, 1, {0, 1});
  auto sent = outbox.all<wire::ParameterChunk>();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0].first, kWorker);
  EXPECT_EQ(sent[2].first, kOther);
  EXPECT_EQ(sent[3].second, (wire::ParameterChunk{1, 1, 1}));
  servers[0]->peer_lost(kWorker);
  offer_and_give(0, 3, {0, 1}, kOther);
  EXPECT_TRUE(outbox.all<wire::ParameterChunk>().empty());
}

TEST_F(ShardServerTest, KeepsTwoVersionsAndNeverWritesWhatIsUnderWay) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 9));
  ok(*servers[0], kWorker, wire::Pull{1, 0});
  const std::deque<Sent> in_flight = std::move(outbox.sent);
  outbox.sent.clear();
  const std::vector<float> first = oracle->values[1];
  for (int64_t step = 0; step < 3; ++step) {
    whole_step(step);
    outbox.sent.clear();
    const std::vector<float> before = oracle->values[1];
    oracle->step(step, rate_of(step));
    ok(*servers[0], kWorker, wire::Pull{1, step});
    ASSERT_EQ(outbox.sent.size(), 2u);
    EXPECT_EQ(std::memcmp(outbox.sent[0].payload.bytes.data(), before.data(), outbox.sent[0].payload.bytes.size()), 0);
    outbox.sent.clear();
    if (step == 0) continue;
    ok(*servers[0], kWorker, wire::Pull{1, step - 1});
    EXPECT_EQ(outbox.all<wire::Gone>().at(0).second, (wire::Gone{1, step - 1, step + 1}));
  }
  EXPECT_EQ(std::memcmp(in_flight[0].payload.bytes.data(), first.data(), in_flight[0].payload.bytes.size()), 0);
  expect_oracle();
}

TEST_F(ShardServerTest, WritesInPlaceWhereItIsTold) {
  std::vector<std::vector<float>> storage;
  std::vector<float*> pointers;
  for (const ParameterInfo& p : small_model())
    pointers.push_back(storage.emplace_back(static_cast<size_t>(p.shape.elements())).data());
  make(2, 1, false, "type = 'adam'", pointers);
  start();
  ok(*servers[0], kCoordinator, rates(0, 9));
  for (int64_t step = 0; step < 2; ++step) {
    whole_step(step);
    oracle->step(step, rate_of(step));
  }
  for (size_t p = 0; p < storage.size(); ++p) EXPECT_TRUE(same_bits(storage[p], oracle->values[p]));
  outbox.sent.clear();
  ok(*servers[0], kWorker, wire::Pull{1, 2});
  EXPECT_EQ(static_cast<const void*>(outbox.sent.at(0).payload.bytes.data()), storage[1].data());
  outbox.sent.clear();
  ok(*servers[0], kWorker, wire::Pull{1, 1});
  EXPECT_EQ(outbox.all<wire::Gone>().size(), 1u);
  ok(*servers[0], kCoordinator, wire::Snapshot{2, "there"});
  ASSERT_EQ(sink.states.size(), 1u);
  EXPECT_NE(sink.states[0].blocks[1].values->as<float>().data(), storage[1].data());
  EXPECT_TRUE(same_bits(sink.states[0].blocks[1].values->as<const float>(), oracle->values[1]));
}

TEST_F(ShardServerTest, WithNormsBlocksCommitTogetherByOneFactor) {
  make(3, 2, true, "type = 'adamw'\nweight_decay = 0.1");
  start();
  for (auto& s : servers) ok(*s, kCoordinator, rates(0, 9));
  for (int64_t step = 0; step < 2; ++step) {
    for (uint32_t b = 0; b < table->blocks().size(); ++b) ok(of_block(b), kWorker, wire::Pull{b, step + 1});
    std::vector<double> squares(table->norm_chunks());
    for (uint32_t b = 0; b < table->blocks().size(); ++b) {
      offer_and_give(step, b, {2, 3});
      offer_and_give(step, b, {0, 2}, kOther);
    }
    const auto partials = outbox.all<wire::NormPartial>();
    ASSERT_GE(partials.size(), 2u);
    double total = 0;
    for (uint32_t s = 0; s < 2; ++s) {
      size_t at = 0;
      const wire::NormPartial& partial = partials[partials.size() - 2 + s].second;
      EXPECT_EQ(partial.step, step);
      for (uint32_t b : table->of_server(s)) {
        if (table->block(b).kind != ParameterKind::kTrainable) continue;
        const std::span<const float> root(facts->root(step, b));
        for (uint32_t c = 0; c < table->block(b).chunks(); ++c) {
          const auto chunk = root.subspan(c * kChunkElements, static_cast<size_t>(table->block(b).chunk_elements(c)));
          ASSERT_LT(at, partial.squares.size());
          EXPECT_EQ(partial.squares[at], sum_of_squares(chunk));
          total += partial.squares[at++];
        }
      }
      EXPECT_EQ(at, partial.squares.size());
    }
    const auto early = outbox.all<wire::ParameterChunk>();
    ASSERT_EQ(early.size(), 1u) << "only the statistic";
    EXPECT_EQ(early[0].second.block, 2u);

    const double factor = optim::clip_factor(std::sqrt(total) / 3, 1.0);
    ASSERT_LT(factor, 1.0);
    for (auto& s : servers) ok(*s, kCoordinator, wire::NormFactor{step - 1, 0, 0.5, {}});  // of a step long done
    EXPECT_TRUE(outbox.all<wire::Committed>().empty());
    for (auto& s : servers) ok(*s, kCoordinator, wire::NormFactor{step, 0, factor, {}});
    const auto committed = outbox.all<wire::Committed>();
    ASSERT_EQ(committed.size(), 2u);
    EXPECT_EQ(committed[0].second.version, step + 1);
    EXPECT_EQ(outbox.all<wire::ParameterChunk>().size(), 4u);
    oracle->step(step, rate_of(step), factor);
    expect_oracle();
    outbox.sent.clear();
  }
}

// LAMB with clipping: gradients first, then with their factor the directions, then the step.
TEST_F(ShardServerTest, NormsOfDirectionsTakeASecondRound) {
  make(3, 2, true, "type = 'lamb'\nweight_decay = 0.1");
  start();
  std::vector<double> ratios(table->parameters().size(), 1.0);
  for (int64_t step = 0; step < 2; ++step) {
    for (uint32_t b = 0; b < table->blocks().size(); ++b) {
      offer_and_give(step, b, {2, 3});
      offer_and_give(step, b, {0, 2}, kOther);
    }
    auto partials = outbox.all<wire::NormPartial>();
    ASSERT_EQ(partials.size(), 2u) << "gradients need no rate";
    for (const auto& [to, partial] : partials) EXPECT_EQ(partial.round, 0u);
    for (auto& s : servers) ok(*s, kCoordinator, wire::NormFactor{step, 0, 0.5, {}});
    EXPECT_TRUE(outbox.all<wire::NormPartial>().empty()) << "directions wait for the rate";
    for (auto& s : servers) ok(*s, kCoordinator, wire::NormFactor{step, 0, 0.25, {}});  // of a round that is over
    for (auto& s : servers) ok(*s, kCoordinator, rates(step, step + 1));
    partials = outbox.all<wire::NormPartial>();
    ASSERT_EQ(partials.size(), 2u);

    const std::vector<double> squares = oracle->prepare(step, 0.5);
    for (uint32_t s = 0; s < 2; ++s) {
      EXPECT_EQ(partials[s].second.round, 1u);
      std::vector<double> expected[2];  // directions, values
      for (uint32_t b : table->of_server(s)) {
        if (table->block(b).kind != ParameterKind::kTrainable) continue;
        for (uint32_t c = 0; c < table->block(b).chunks(); ++c) {
          const auto chunk = std::span(oracle->values[b])
                                 .subspan(c * kChunkElements, static_cast<size_t>(table->block(b).chunk_elements(c)));
          expected[0].push_back(squares[table->norm_index(b) + c]);
          expected[1].push_back(sum_of_squares(chunk));
        }
      }
      expected[0].insert(expected[0].end(), expected[1].begin(), expected[1].end());
      EXPECT_EQ(partials[s].second.squares, expected[0]);
    }
    EXPECT_TRUE(outbox.all<wire::Committed>().empty());
    for (size_t p = 0; p < ratios.size(); ++p) ratios[p] = 0.25 + 0.5 * static_cast<double>(p);
    for (auto& s : servers) ok(*s, kCoordinator, wire::NormFactor{step, 1, 0.5, ratios});
    EXPECT_EQ(outbox.all<wire::Committed>().size(), 2u);
    oracle->step(step, rate_of(step), 0.5, ratios);
    expect_oracle();
    outbox.sent.clear();
  }
}

TEST_F(ShardServerTest, RatiosOfGradientsComeInOneRound) {
  make(1, 1, true, "type = 'lars'\nmomentum = 0.9\nweight_decay = 0.1");
  start();
  ok(*servers[0], kCoordinator, rates(0, 1));
  whole_step(0);
  const auto partials = outbox.all<wire::NormPartial>();
  ASSERT_EQ(partials.size(), 1u);
  EXPECT_EQ(partials[0].second.squares.size(), 2 * table->norm_chunks());
  EXPECT_THAT(error(kCoordinator, wire::NormFactor{0, 0, 0.5, {1.0}}), HasSubstr("1 ratios for 4 parameters"));
  EXPECT_THAT(error(kCoordinator, wire::NormFactor{0, 0, 0.5, {1.0, -1.0, 1.0, 1.0}}), HasSubstr("a ratio of -1"));
  const std::vector<double> ratios{0.5, 2.0, 1.0, 3.0};
  ok(*servers[0], kCoordinator, wire::NormFactor{0, 0, 0.5, ratios});
  oracle->step(0, rate_of(0), 0.5, ratios);
  expect_oracle();
}

TEST_F(ShardServerTest, NamesAParameterThatIsNotFinite) {
  for (const bool norms : {false, true}) {
    outbox.sent.clear();
    make(2, 1, norms);
    start();
    ok(*servers[0], kCoordinator, rates(0, 9));
    std::vector<float> bad = facts->node(0, 3, {0, 1});
    bad[4321] = std::numeric_limits<float>::infinity();
    offer_and_give(0, 3, {1, 2});
    ok(*servers[0], kWorker, wire::Offer{0, 3, 0, 1});
    ok(*servers[0], kWorker, wire::NodeChunk{0, 3, 0, 1, 0}, std::as_bytes(std::span(bad)));
    for (uint32_t b = 0; b < 3; ++b) offer_and_give(0, b, {0, 2});
    const auto failures = outbox.all<wire::Failure>();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].second.exit_code, 7);
    EXPECT_THAT(failures[0].second.reason, HasSubstr("step 0: the gradient of 'linear2.weight'"));
    EXPECT_THAT(failures[0].second.reason, HasSubstr("inf at element 4321"));
    EXPECT_EQ(outbox.all<wire::Absorbed>().size(), 5u);
    EXPECT_TRUE(outbox.all<wire::Committed>().empty());
    EXPECT_TRUE(outbox.all<wire::NormPartial>().empty());
    EXPECT_TRUE(same_bits(servers[0]->values(3), oracle->values[3]));
  }
}

TEST_F(ShardServerTest, GivesItsStateOnlyAtTheVersionThatIsWanted) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 1));
  ok(*servers[0], kCoordinator, wire::Snapshot{1, "there"});
  EXPECT_THAT(outbox.all<wire::SnapshotDone>().at(0).second.error, HasSubstr("does not stand at version 1"));
  whole_step(0);
  oracle->step(0, rate_of(0));
  ok(*servers[0], kCoordinator, wire::Snapshot{1, "there"});
  ASSERT_EQ(sink.states.size(), 1u);
  ok(*servers[0], kCoordinator, rates(1, 3));
  const Oracle then = *oracle;
  for (int64_t step = 1; step < 3; ++step) {
    whole_step(step);
    oracle->step(step, rate_of(step));
  }
  const ShardState& state = sink.states[0];
  EXPECT_EQ(state.version, 1);
  ASSERT_EQ(state.blocks.size(), 4u);
  for (uint32_t b = 0; b < 4; ++b) {
    EXPECT_TRUE(same_bits(state.blocks[b].values->as<const float>(), then.values[b]));
    ASSERT_EQ(state.blocks[b].slots.size(), then.slots[b].size());
    for (size_t s = 0; s < then.slots[b].size(); ++s)
      EXPECT_TRUE(same_bits(state.blocks[b].slots[s].as<const float>(), then.slots[b][s]));
  }

  // Back to it, in the middle of a step: the same bits again.
  ok(*servers[0], kWorker, wire::Offer{3, 1, 0, 1});
  outbox.sent.clear();
  for (const auto& block : state.blocks) {
    std::vector<std::span<const float>> slots;
    for (const Buffer& slot : block.slots) slots.push_back(slot.as<const float>());
    servers[0]->load(block.block, block.values->as<const float>(), slots);
  }
  servers[0]->start(1);
  whole_step(1);
  EXPECT_TRUE(outbox.all<wire::Committed>().empty()) << "the old rates are forgotten";
  ok(*servers[0], kCoordinator, rates(1, 3));
  whole_step(2);
  expect_oracle();
}

TEST_F(ShardServerTest, AFrozenBlockIsEveryVersionAndWaitsForNoRoot) {
  model.insert(model.begin() + 1, {"still", Shape{70000}, ParameterKind::kFrozen});
  make(1);
  start(7);
  const uint32_t still = table->of_parameter(1)[0];
  for (const int64_t version : {7, 0, 99}) {
    ok(*servers[0], kWorker, wire::Pull{still, version});
    uint32_t chunk = 0;
    for (const Sent& s : outbox.sent) {
      EXPECT_EQ(std::get<wire::ParameterChunk>(s.message), (wire::ParameterChunk{still, version, chunk}));
      const size_t first = chunk++ * static_cast<size_t>(kChunkElements);
      EXPECT_TRUE(same_bits({reinterpret_cast<const float*>(s.payload.bytes.data()), s.payload.bytes.size() / 4},
                            std::span(oracle->values[still]).subspan(first, std::min<size_t>(65536, 70000 - first))));
    }
    EXPECT_EQ(chunk, 2u);
    outbox.sent.clear();
  }
  EXPECT_THAT(error(kWorker, wire::Offer{7, still, 0, 1}), HasSubstr("frozen"));

  ok(*servers[0], kCoordinator, rates(7, 8));
  for (uint32_t b = 0; b < table->blocks().size(); ++b)
    if (b != still) offer_and_give(7, b, {0, 1});
  EXPECT_EQ(outbox.all<wire::Committed>().size(), 1u);
  oracle->step(7, rate_of(7));
  expect_oracle();

  ok(*servers[0], kCoordinator, wire::Snapshot{8, "folder"});
  ASSERT_EQ(sink.states.size(), 1u);
  const ShardState::BlockCopy& copy = sink.states[0].blocks[still];
  EXPECT_TRUE(copy.slots.empty());
  EXPECT_TRUE(same_bits(copy.values->as<const float>(), oracle->values[still]));
}

TEST_F(ShardServerTest, AServerOfFrozenBlocksCommitsWhenItKnowsTheRate) {
  model = {{"small", Shape{8}, ParameterKind::kTrainable}, {"still", Shape{20000}, ParameterKind::kFrozen}};
  make(1, 2);
  EXPECT_EQ(table->block(0).server, 0u);
  EXPECT_EQ(table->block(1).server, 1u);
  start();
  ok(*servers[1], kCoordinator, rates(0, 2));
  EXPECT_EQ(servers[1]->version(), 2);
  ok(*servers[1], kCoordinator, wire::Snapshot{2, "folder"});
  EXPECT_EQ(sink.states.size(), 1u);
}

TEST_F(ShardServerTest, IgnoresBlocksBeforeItIsStarted) {
  make(1);
  ok(*servers[0], kWorker, wire::Offer{0, 1, 0, 1});
  ok(*servers[0], kWorker, wire::Pull{1, 0});
  give(0, 0, 0, {0, 1});
  EXPECT_TRUE(outbox.sent.empty());
  EXPECT_EQ(servers[0]->counters().ignored, 3u);
}

TEST_F(ShardServerTest, AnswersOnlyWhenNothingThatItAskedForIsUnderWay) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 2));
  ok(*servers[0], kWorker, wire::Offer{0, 3, 0, 1});
  ok(*servers[0], kOther, wire::Offer{0, 3, 0, 1});
  EXPECT_EQ(outbox.all<wire::Take>().size(), 2u);
  give(0, 3, 0, {0, 1}, kOther);
  auto absorbed = outbox.all<wire::Absorbed>();
  ASSERT_EQ(absorbed.size(), 1u);
  EXPECT_EQ(absorbed[0].first, kOther);
  give(0, 3, 0, {0, 1}, kWorker);
  absorbed = outbox.all<wire::Absorbed>();
  ASSERT_EQ(absorbed.size(), 1u);
  EXPECT_EQ(absorbed[0].first, kWorker);
  EXPECT_EQ(servers[0]->counters().duplicates, 1u);
}

// Room for one sum beside the reserve of the first block.
TEST_F(ShardServerTest, WhoWaitsIsAskedWhenAPeerIsLost) {
  make(4, 1, false, "", {}, Admission::smallest_pool(BlockTable(small_model(), 1), 0, 4) + 17000 * sizeof(float));
  start();
  ok(*servers[0], kWorker, wire::Offer{0, 3, 2, 3});
  EXPECT_EQ(outbox.all<wire::Take>().size(), 1u);
  ok(*servers[0], kOther, wire::Offer{0, 3, 0, 1});
  EXPECT_TRUE(outbox.all<wire::Take>().empty());
  servers[0]->peer_lost(kWorker);
  const auto takes = outbox.all<wire::Take>();
  ASSERT_EQ(takes.size(), 1u);
  EXPECT_EQ(takes[0].first, kOther);
  servers[0]->peer_lost(kOther);
  EXPECT_EQ(servers[0]->admission().used(), 0u);
}

TEST_F(ShardServerTest, TakesPayloadsAtAnyAddress) {
  make(1);
  start();
  ok(*servers[0], kCoordinator, rates(0, 1));
  const ByteSpan bytes = facts->chunk(0, 0, {0, 1}, 0);
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  ok(*servers[0], kWorker, wire::NodeChunk{0, 0, 0, 1, 0}, ByteSpan(shifted).subspan(1));
  oracle->step(0, rate_of(0));
  EXPECT_TRUE(same_bits(servers[0]->values(0), oracle->values[0]));
}

TEST_F(ShardServerTest, TrustsNothingThatAPeerSays) {
  make(6, 2, true);
  start();
  const uint32_t mine = table->of_server(0)[0], theirs = table->of_server(1)[0];
  const size_t bytes = static_cast<size_t>(table->block(mine).chunk_elements(0)) * sizeof(float);
  const std::vector<std::byte> payload(bytes + 4);
  const ByteSpan whole(payload.data(), bytes);
  EXPECT_THAT(error(kWorker, wire::Offer{0, 4, 0, 1}), HasSubstr("there is no block 4"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, UINT32_MAX, 0, 1}), HasSubstr("there is no block"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, theirs, 0, 1}), HasSubstr("is of server 1, not 0"));
  EXPECT_THAT(error(kWorker, wire::Offer{-1, mine, 0, 1}), HasSubstr("no step -1"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, mine, 1, 3}), HasSubstr("[1, 3) is no node"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, mine, 0, 7}), HasSubstr("no node"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, mine, 3, 3}), HasSubstr("no node"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, mine, UINT32_MAX, 0}), HasSubstr("no node"));
  EXPECT_THAT(error(kWorker, wire::Offer{0, mine, 0, 1}, whole), HasSubstr("a payload where none belongs"));
  EXPECT_THAT(error(kWorker, wire::NodeChunk{0, mine, 0, 1, 4}, whole), HasSubstr("has no chunk 4"));
  EXPECT_THAT(error(kWorker, wire::NodeChunk{0, mine, 0, 1, 0}, {}), HasSubstr("bytes, not 0"));
  EXPECT_THAT(error(kWorker, wire::NodeChunk{0, mine, 0, 1, 0}, payload), HasSubstr("bytes, not"));
  EXPECT_THAT(error(kWorker, wire::NodeChunk{0, mine, 1, 3, 0}, whole), HasSubstr("no node"));
  EXPECT_THAT(error(kWorker, wire::Pull{9, 0}), HasSubstr("there is no block 9"));
  EXPECT_THAT(error(kWorker, wire::Pull{theirs, 0}), HasSubstr("is of server 1"));
  EXPECT_THAT(error(kWorker, wire::Pull{mine, -1}), HasSubstr("no version -1"));
  EXPECT_THAT(error(kWorker, rates(0, 9)), HasSubstr("only the coordinator, task 0, sends Rates"));
  EXPECT_THAT(error(kWorker, wire::NormFactor{0, 0, 1.0, {}}), HasSubstr("only the coordinator"));
  EXPECT_THAT(error(kWorker, wire::Snapshot{0, "/"}), HasSubstr("only the coordinator"));
  EXPECT_THAT(error(kCoordinator, wire::Rates{0, {0.1, NAN}}), HasSubstr("not finite"));
  EXPECT_THAT(error(kCoordinator, wire::NormFactor{0, 0, INFINITY, {}}), HasSubstr("a factor of inf"));
  EXPECT_THAT(error(kWorker, wire::Committed{4}), HasSubstr("takes no message"));
  EXPECT_THAT(error(kWorker, wire::ParameterChunk{mine, 0, 0}, whole), HasSubstr("takes no message"));
  // A chunk of a large block that nobody asked for.
  ASSERT_FALSE(table->block(mine).pushed());
  EXPECT_EQ(error(kWorker, wire::NodeChunk{0, mine, 0, 1, 0}, whole), "");
  EXPECT_EQ(servers[0]->counters().ignored, 1u);
  EXPECT_EQ(servers[0]->counters().bytes_taken, 0u);
  EXPECT_TRUE(outbox.sent.empty());
}

}  // namespace
}  // namespace dtrain::ps
