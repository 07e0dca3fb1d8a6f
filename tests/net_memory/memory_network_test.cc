#include "net/memory/memory_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/net/recording_handler.h"

namespace dtrain::net {
namespace {

using ::testing::ElementsAre;

struct Fixture {
  explicit Fixture(size_t ranks, MemoryNetworkOptions options = {}) : network(ranks, clock, options), handlers(ranks) {
    network.link_all();
    for (Rank r = 0; r < ranks; ++r) network.start(r, handlers[r], 100 + r);
  }
  void run(Nanoseconds by) { network.run_until(clock.now() + by); }
  void forget() {
    for (RecordingHandler& h : handlers) h.lines.clear();
  }

  ManualClock clock;
  MemoryNetwork network;
  std::vector<RecordingHandler> handlers;
};

wire::Payload payload_of(size_t floats) {
  auto tensor = std::make_shared<std::vector<float>>(floats, 1.0f);
  return {std::as_bytes(std::span(*tensor)), tensor};
}

TEST(MemoryNetwork, ConnectsThenDeliversInOrder) {
  Fixture f(2);
  EXPECT_FALSE(f.network.transport(0).connected(1));
  f.run(kSecond);
  EXPECT_TRUE(f.network.transport(0).connected(1));
  for (int i = 0; i < 3; ++i) f.network.transport(0).send(1, wire::Committed{i});
  f.run(kSecond);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("connected 1 incarnation 101"));
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("connected 0 incarnation 100", "0: Committed{version=0}",
                                               "0: Committed{version=1}", "0: Committed{version=2}"));
}

TEST(MemoryNetwork, OwnMessagesComeLater) {
  Fixture f(1);
  f.network.transport(0).send(0, wire::Ready{});
  EXPECT_TRUE(f.handlers[0].lines.empty());
  f.run(0);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("0: Ready{}"));
}

TEST(MemoryNetwork, ControlMayOvertakeTensorsButNothingElseMovesUp) {
  uint64_t overtaken = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Fixture f(2, {.seed = seed, .delay_least = 1, .delay_most = kSecond});
    f.run(10 * kSecond);
    std::vector<int64_t> control, tensors;
    f.handlers[1].when_message = [&](Rank, const wire::Message& m, ByteSpan) {
      if (const auto* c = std::get_if<wire::Committed>(&m)) control.push_back(c->version);
      if (const auto* t = std::get_if<wire::NodeChunk>(&m)) {
        tensors.push_back(t->step);
        // Control that was sent before this tensor is here.
        EXPECT_GE(static_cast<int64_t>(control.size()), t->step);
      }
    };
    for (int i = 0; i < 20; ++i) {
      f.network.transport(0).send(1, wire::NodeChunk{.step = i}, payload_of(4));
      f.network.transport(0).send(1, wire::Committed{i});
    }
    f.run(100 * kSecond);
    ASSERT_EQ(control.size(), 20u);
    ASSERT_EQ(tensors.size(), 20u);
    EXPECT_TRUE(std::is_sorted(control.begin(), control.end())) << "seed " << seed;
    EXPECT_TRUE(std::is_sorted(tensors.begin(), tensors.end())) << "seed " << seed;
    overtaken += f.network.counts().overtaken;
  }
  EXPECT_GT(overtaken, 50u);
}

TEST(MemoryNetwork, ACutLosesWhatIsUnderWayAndTheLinkComesBack) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  f.network.transport(0).send(1, wire::Ready{});
  f.network.cut(0, 1);
  f.network.transport(0).send(1, wire::Stopped{});
  f.run(kSecond);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: cut", "connected 1 incarnation 101"));
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("lost 0: cut", "connected 0 incarnation 100"));
  EXPECT_EQ(f.network.counts().dropped, 2u);
}

TEST(MemoryNetwork, AKilledTaskIsLostAndComesBackAsAnother) {
  Fixture f(3);
  f.run(kSecond);
  f.forget();
  f.network.transport(1).send(0, wire::Ready{});
  f.network.transport(1).send(1, wire::Ready{});
  f.network.kill(1);
  f.run(kSecond);
  EXPECT_TRUE(f.handlers[1].lines.empty());
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: connection reset"));
  EXPECT_FALSE(f.network.alive(1));
  RecordingHandler again;
  f.network.start(1, again, 200);
  f.run(kSecond);
  EXPECT_THAT(again.lines,
              ::testing::UnorderedElementsAre("connected 0 incarnation 100", "connected 2 incarnation 102"));
  EXPECT_THAT(f.handlers[2].lines, ElementsAre("lost 1: connection reset", "connected 1 incarnation 200"));
}

TEST(MemoryNetwork, ARestartAtOnceIsStillALoss) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  RecordingHandler again;
  f.network.kill(1);
  f.network.start(1, again, 200);
  f.run(kSecond);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: connection reset", "connected 1 incarnation 200"));
  EXPECT_THAT(again.lines, ElementsAre("connected 0 incarnation 100"));
}

TEST(MemoryNetwork, AShortFreezeOnlyDelays) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  f.network.freeze(1);
  f.network.transport(0).send(1, wire::Committed{1});
  f.network.transport(0).send(1, wire::Committed{2});
  f.run(5 * kSecond);
  EXPECT_TRUE(f.handlers[1].lines.empty());
  f.network.thaw(1);
  f.run(20 * kSecond);
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("0: Committed{version=1}", "0: Committed{version=2}"));
  EXPECT_TRUE(f.handlers[0].lines.empty());
}

TEST(MemoryNetwork, ALongFreezeIsALossThatTheFrozenLearnsLater) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  f.network.freeze(1);
  f.run(11 * kSecond);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: silent for too long"));
  f.run(100 * kSecond);
  EXPECT_TRUE(f.handlers[1].lines.empty());
  f.network.thaw(1);
  f.run(kSecond);
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("lost 0: closed by the other side", "connected 0 incarnation 100"));
}

TEST(MemoryNetwork, AShortBlockKeepsTheOrder) {
  Fixture f(2, {.seed = 1, .delay_least = 1, .delay_most = kSecond});
  f.run(10 * kSecond);
  f.forget();
  f.network.block(0, 1);
  for (int i = 0; i < 3; ++i) f.network.transport(0).send(1, wire::Committed{i});
  f.network.transport(1).send(0, wire::Ready{});
  f.run(5 * kSecond);
  EXPECT_TRUE(f.handlers[1].lines.empty());
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("1: Ready{}"));
  f.network.transport(0).send(1, wire::Committed{3});
  f.network.unblock(0, 1);
  f.run(20 * kSecond);
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("0: Committed{version=0}", "0: Committed{version=1}",
                                               "0: Committed{version=2}", "0: Committed{version=3}"));
}

TEST(MemoryNetwork, ALongBlockIsALossUntilItIsHealed) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  f.network.block(0, 1);
  f.run(60 * kSecond);
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("lost 0: silent for too long"));
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: closed by the other side"));
  f.network.unblock(0, 1);
  f.run(kSecond);
  EXPECT_TRUE(f.network.transport(0).connected(1));
}

TEST(MemoryNetwork, DisconnectGivesTheReason) {
  Fixture f(2);
  f.run(kSecond);
  f.forget();
  f.network.transport(0).disconnect(1, "sent nonsense");
  EXPECT_TRUE(f.handlers[0].lines.empty());
  f.run(10 * kMillisecond);
  EXPECT_THAT(f.handlers[0].lines, ElementsAre("lost 1: sent nonsense"));
  EXPECT_THAT(f.handlers[1].lines, ElementsAre("lost 0: closed by the other side"));
}

TEST(MemoryNetworkDeathTest, AChangedPayloadIsNoticed) {
  Fixture f(2);
  f.run(kSecond);
  auto tensor = std::make_shared<std::vector<float>>(4, 1.0f);
  f.network.transport(0).send(1, wire::NodeChunk{}, {std::as_bytes(std::span(*tensor)), tensor});
  (*tensor)[0] = 2.0f;
  EXPECT_DEATH(f.run(kSecond), "rank 0 changed a payload that was under way to 1");
}

// Four tasks that chatter under random cuts and blocks, a kill now and then.
std::vector<std::string> chaos(uint64_t seed, MemoryNetwork::Counts* counts) {
  Fixture f(4, {.seed = seed,
                .delay_least = kMillisecond,
                .delay_most = 200 * kMillisecond,
                .cut_mean = kSecond,
                .block_mean = 3 * kSecond});
  std::vector<std::string> all;
  // On each connection, per sender, numbers only rise, and on_connected and on_lost alternate.
  std::vector<std::vector<int64_t>> newest(4, std::vector<int64_t>(4, -1));
  std::vector<std::vector<bool>> up(4, std::vector<bool>(4, false));
  for (Rank r = 0; r < 4; ++r) {
    RecordingHandler& h = f.handlers[r];
    h.when_connected = [&, r](Rank peer) {
      EXPECT_FALSE(up[r][peer]) << "seed " << seed;
      up[r][peer] = true;
    };
    h.when_lost = [&, r](Rank peer, const std::string&) {
      EXPECT_TRUE(up[r][peer]) << "seed " << seed;
      up[r][peer] = false;
    };
    h.when_message = [&, r](Rank from, const wire::Message& m, ByteSpan) {
      EXPECT_TRUE(up[r][from]) << "seed " << seed;
      const int64_t number = std::get<wire::Committed>(m).version;
      EXPECT_GT(number, newest[r][from]) << "seed " << seed;
      newest[r][from] = number;
    };
  }
  for (int i = 0; i < 300; ++i) {
    for (Rank from = 0; from < 4; ++from) {
      for (Rank to = 0; to < 4; ++to) {
        if (from != to) f.network.transport(from).send(to, wire::Committed{i});
      }
    }
    if (i % 50 == 20) {
      const Rank victim = static_cast<Rank>(i / 50 % 4);
      f.network.kill(victim);
      up[victim].assign(4, false);
      f.network.start(victim, f.handlers[victim], 1000 + static_cast<uint64_t>(i));
    }
    f.run(100 * kMillisecond);
  }
  f.network.end_faults();
  f.run(100 * kSecond);
  for (Rank a = 0; a < 4; ++a) {
    for (Rank b = 0; b < 4; ++b) EXPECT_TRUE(f.network.transport(a).connected(b)) << "seed " << seed;
    all.insert(all.end(), f.handlers[a].lines.begin(), f.handlers[a].lines.end());
  }
  *counts = f.network.counts();
  return all;
}

TEST(MemoryNetwork, ChaosIsAFunctionOfTheSeedAndHealsInTheEnd) {
  MemoryNetwork::Counts counts, same;
  std::vector<std::string> before;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<std::string> lines = chaos(seed, &counts);
    EXPECT_EQ(lines, chaos(seed, &same));
    EXPECT_NE(lines, before);
    EXPECT_GT(counts.cuts, 5u);
    EXPECT_GT(counts.blocks, 2u);
    EXPECT_GT(counts.delivered, 1000u);
    before = lines;
  }
}

TEST(MemoryNetwork, FunctionsRunAtTheirTime) {
  Fixture f(1);
  std::vector<Instant> times;
  f.network.at(7, [&] { times.push_back(f.clock.now()); });
  f.network.at(3, [&] {
    times.push_back(f.clock.now());
    f.network.at(5, [&] { times.push_back(f.clock.now()); });
  });
  while (f.network.step()) {
  }
  EXPECT_THAT(times, ElementsAre(3, 5, 7));
  EXPECT_FALSE(f.network.next_time());
}

}  // namespace
}  // namespace dtrain::net
