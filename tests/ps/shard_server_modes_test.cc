// What the modes other than synchronous ask of the server beside the rule itself, which tests/consistency drives.
#include <gmock/gmock.h>

#include "fixture.h"
#include "tests/consistency/rule_text.h"

namespace dtrain::ps {
namespace {

using testing::ElementsAre;

constexpr wire::Rank kCoordinator = 0, kWorker = 10, kOther = 11;
constexpr uint32_t kSmall = 0, kTwoChunks = 1, kOneChunk = 3;  // blocks of small_model()

class ShardServerModes : public testing::Test {
 protected:
  void make(const std::string& mode, uint32_t k, bool clips = false, const std::string& optimizer_toml = "") {
    facts = std::make_unique<Facts>(table, k);
    optimizer = make_optimizer(optimizer_toml);
    server = std::make_unique<ShardServer>(table, 0,
                                           ShardServerOptions{.micro_batches = k,
                                                              .norms = norm_rounds(clips, optimizer->norm_need()),
                                                              .coordinator = kCoordinator,
                                                              .rule = consistency::rule_of(mode)},
                                           *optimizer, outbox, sink);
    const Oracle start(table, *optimizer, *facts, k);
    load_all(*server, 0, table, start);
  }
  void say(wire::Rank from, const wire::Message& m, ByteSpan payload = {}) {
    const Status status = server->on_message(from, m, payload);
    ASSERT_TRUE(status) << status.error().message;
  }
  void give(int64_t step, uint32_t b, uint32_t chunk, const Node& node, wire::Rank from = kWorker) {
    say(from, wire::NodeChunk{step, b, node.first, node.last, chunk}, facts->chunk(step, b, node, chunk));
  }
  void offer(int64_t step, uint32_t b, const Node& node, wire::Rank from = kWorker) {
    say(from, wire::Offer{step, b, node.first, node.last});
  }

  const BlockTable table{small_model(), 1};
  std::shared_ptr<const optim::Optimizer> optimizer;
  std::unique_ptr<Facts> facts;
  FakeOutbox outbox;
  FakeSink sink;
  std::unique_ptr<ShardServer> server;
};

// The worker that waits behind one that is lost in the middle of its push is told that it comes too late.
TEST_F(ShardServerModes, APushThatEndsInTheMiddleMakesOthersLate) {
  make("{ type = 'async', most_lag = 1 }", 2);
  server->start(0);
  say(kCoordinator, rates(0, 1));
  offer(0, kTwoChunks, {0, 1});
  offer(0, kTwoChunks, {1, 2}, kOther);
  EXPECT_EQ(outbox.all<wire::Take>().size(), 1u);
  give(0, kTwoChunks, 0, {0, 1});
  const std::vector<float> before(server->values(kTwoChunks).begin(), server->values(kTwoChunks).end());
  server->peer_lost(kWorker);
  const auto absorbed = outbox.all<wire::Absorbed>();
  ASSERT_EQ(absorbed.size(), 1u);
  EXPECT_EQ(absorbed[0].first, kOther);
  EXPECT_EQ(absorbed[0].second, (wire::Absorbed{0, kTwoChunks, 1, 2, 1, true}));
  EXPECT_NE(server->values(kTwoChunks)[0], before[0]) << "what has come of it counts";
  EXPECT_TRUE(same_bits(server->values(kTwoChunks).subspan(kChunkElements), std::span(before).subspan(kChunkElements)));
}

// Nothing of it has come: as if it had never been.
TEST_F(ShardServerModes, APushOfWhichNothingHasComeHoldsNobodyUp) {
  make("'async'", 2);
  server->start(0);
  say(kCoordinator, rates(0, 1));
  offer(0, kTwoChunks, {0, 1});
  offer(0, kTwoChunks, {1, 2}, kOther);
  outbox.sent.clear();
  server->peer_lost(kWorker);
  const auto takes = outbox.all<wire::Take>();
  ASSERT_EQ(takes.size(), 1u);
  EXPECT_EQ(takes[0].first, kOther);
  EXPECT_EQ(takes[0].second.chunks, 0b11u);
}

// A small block's push may overtake the first rate. One can wait for it; what is dropped is said to be.
TEST_F(ShardServerModes, BeforeTheFirstRateOnePushWaitsAndOthersAreDropped) {
  make("'async'", 2);
  server->start(0);
  give(0, kSmall, 0, {0, 1});
  give(0, kSmall, 0, {1, 2}, kOther);
  const auto absorbed = outbox.all<wire::Absorbed>();
  ASSERT_EQ(absorbed.size(), 2u);
  EXPECT_FALSE(absorbed[0].second.dropped);
  EXPECT_TRUE(absorbed[1].second.dropped);
  offer(0, kTwoChunks, {0, 1});
  EXPECT_TRUE(outbox.all<wire::Take>().empty());
  say(kCoordinator, rates(0, 1));
  EXPECT_EQ(outbox.all<wire::Take>().size(), 1u);
  say(kWorker, wire::Pull{kSmall, 0});
  EXPECT_EQ(outbox.all<wire::ParameterChunk>().at(0).second.version, 1);
}

// Adam's correction of its averages goes by the pushes that a block has had, also after a resume.
TEST_F(ShardServerModes, AResumedBlockHasHadItsPushes) {
  make("{ type = 'async', push_every = 2 }", 4, false, "type = 'adam'");
  server->start(10);
  say(kWorker, wire::Pull{kSmall, 0});
  EXPECT_EQ(outbox.all<wire::ParameterChunk>().at(0).second.version, 20);
}

// The rate of a push is the newest.
TEST_F(ShardServerModes, TheNewestRateIsForAll) {
  make("'async'", 1);
  server->start(0);
  say(kCoordinator, wire::Rates{0, {0.5}});
  say(kCoordinator, wire::Rates{1, {0.25}});
  const float before = server->values(kOneChunk)[7];
  offer(0, kOneChunk, {0, 1});
  give(0, kOneChunk, 0, {0, 1});
  const float gradient = facts->node(0, kOneChunk, {0, 1})[7];
  EXPECT_EQ(server->values(kOneChunk)[7], before - 0.25F * gradient);
}

// A worker that waits for its version hurries, is answered, and waits for the next.
TEST_F(ShardServerModes, APullThatWasHurriedIsParkedNoMore) {
  make("{ type = 'stale', bound = 1 }", 1);
  server->start(0);
  say(kCoordinator, rates(0, 2));
  say(kWorker, wire::Pull{kSmall, 1});
  EXPECT_TRUE(outbox.all<wire::ParameterChunk>().empty());
  say(kWorker, wire::Pull{kSmall, 0});
  EXPECT_EQ(outbox.all<wire::ParameterChunk>().size(), 1u);
  say(kWorker, wire::Pull{kSmall, 1});
  give(0, kSmall, 0, {0, 1});
  const auto sent = outbox.all<wire::ParameterChunk>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].second.version, 1);
}

// With bounded staleness steps lie here that are ahead. When the one under way ends by the coordinator's word alone,
// what waited for room is asked for: nobody will send anything before it is.
TEST_F(ShardServerModes, WhatWasAheadIsTakenWhenItsTimeHasCome) {
  for (const bool clips : {true, false}) {
    make("{ type = 'stale', bound = 1 }", 2, clips);
    server->start(0);
    if (clips) say(kCoordinator, rates(0, 2));
    for (uint32_t b = 0; b < table.blocks().size(); ++b) {
      if (!table.block(b).pushed()) offer(0, b, {0, 2});
      for (uint32_t c = 0; c < table.block(b).chunks(); ++c) give(0, b, c, {0, 2});
    }
    outbox.sent.clear();
    offer(1, kTwoChunks, {0, 1});
    EXPECT_TRUE(outbox.all<wire::Take>().empty()) << "the pool is the smallest, and kept for step 0";
    if (clips)
      say(kCoordinator, wire::NormFactor{0, 0, 0.5, {}});
    else
      say(kCoordinator, rates(0, 1));
    EXPECT_EQ(server->version(), 1);
    EXPECT_EQ(outbox.all<wire::Take>().size(), 1u);
  }
}

TEST_F(ShardServerModes, PushesOfSeveralMicroBatchesAreRefusedWherePushesCount) {
  for (const char* mode : {"{ type = 'backup', needed = 1 }", "'async'"}) {
    make(mode, 4);
    server->start(0);
    EXPECT_FALSE(server->on_message(kWorker, wire::Offer{0, kTwoChunks, 0, 2})) << mode;
  }
  make("'sync'", 4);
  server->start(0);
  EXPECT_FALSE(server->on_message(kWorker, wire::Offer{0, kTwoChunks, 4, 5})) << "there is no such micro-batch";
}

// Each of a worker's pushes lies in gradient memory of its own.
TEST_F(ShardServerModes, AWorkerHasFewPushesUnderWay) {
  make("'async'", 4);
  server->start(0);  // without a rate nothing is taken
  uint32_t n = 0;
  while (n < 1000 && server->on_message(kWorker, wire::Offer{0, kTwoChunks, n, n + 1})) ++n;
  EXPECT_GE(n, 4u);
  EXPECT_LT(n, 100u);
  EXPECT_TRUE(server->on_message(kWorker + 1, wire::Offer{0, kTwoChunks, 1000, 1001})) << "this one has none";
  server->peer_lost(kWorker);
  EXPECT_TRUE(server->on_message(kWorker, wire::Offer{0, kTwoChunks, 0, 1}));
}

// The mean of those that came first; the rest is acknowledged and counted.
TEST_F(ShardServerModes, LatePushesAreCounted) {
  make("{ type = 'backup', needed = 2 }", 3);
  server->start(0);
  say(kCoordinator, rates(0, 1));
  for (uint32_t k = 0; k < 3; ++k) give(0, kSmall, 0, {k, k + 1});
  EXPECT_EQ(server->counters().late, 1u);
  std::vector<bool> dropped;
  for (const auto& [to, m] : outbox.all<wire::Absorbed>()) dropped.push_back(m.dropped);
  EXPECT_THAT(dropped, ElementsAre(false, false, true));
}

}  // namespace
}  // namespace dtrain::ps
