// Searches the orders in which nodes can be offered, taken, lost and come twice: the server must always finish the
// step, with the bits of the plain computation, within the smallest pool.
#include <algorithm>

#include "fixture.h"

namespace dtrain::ps {
namespace {

constexpr wire::Rank kCoordinator = 0;

struct Peer {
  wire::Rank rank = 0;
  bool frozen = false;
  std::deque<std::pair<wire::Message, ByteSpan>> queue;                         // under way to the server
  std::map<std::tuple<int64_t, uint32_t, uint32_t, uint32_t>, int> unanswered;  // nodes offered or pushed
};

class Cluster {
 public:
  Cluster(const BlockTable& table, uint32_t micro_batches, const std::shared_ptr<const optim::Optimizer>& optimizer,
          Facts& facts, size_t pool_bytes, uint32_t seed)
      : table_(table),
        k_(micro_batches),
        facts_(facts),
        random_(seed),
        server(table, 0, {.micro_batches = micro_batches, .pool_bytes = pool_bytes}, *optimizer, outbox, sink) {}

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  Peer& join() { return peers_.emplace_back(Peer{static_cast<wire::Rank>(10 + peers_.size()), false, {}, {}}); }

  // The peer has computed [first, last) and offers it in the maximal nodes, or in smaller ones.
  void give(Peer& peer, int64_t step, uint32_t first, uint32_t last, bool in_pieces) {
    std::vector<std::pair<wire::Message, ByteSpan>> messages;
    std::vector<Node> nodes;
    if (in_pieces) {
      for (uint32_t i = first; i < last; ++i) nodes.push_back({i, i + 1});
    } else {
      nodes = maximal_nodes(first, last, k_);
    }
    for (uint32_t b = 0; b < table_.blocks().size(); ++b) {
      for (const Node& node : nodes) {
        if (++peer.unanswered[{step, b, node.first, node.last}] > 1) {
          --peer.unanswered[{step, b, node.first, node.last}];
          continue;
        }
        if (table_.block(b).pushed()) {
          messages.push_back({wire::NodeChunk{step, b, node.first, node.last, 0}, facts_.chunk(step, b, node, 0)});
        } else {
          messages.push_back({wire::Offer{step, b, node.first, node.last}, {}});
        }
      }
    }
    std::shuffle(messages.begin(), messages.end(), random_);
    peer.queue.insert(peer.queue.end(), messages.begin(), messages.end());
  }

  void lose(Peer& peer) {
    peer.queue.clear();
    peer.unanswered.clear();
    server.peer_lost(peer.rank);
    drain();
  }

  // Delivers one message of a random peer; false where none is under way.
  bool deliver() {
    std::vector<Peer*> ready;
    for (Peer& p : peers_)
      if (!p.frozen && !p.queue.empty()) ready.push_back(&p);
    if (ready.empty()) return false;
    Peer& p = *ready[below(ready.size())];
    auto [message, payload] = p.queue.front();
    p.queue.pop_front();
    const Status status = server.on_message(p.rank, message, payload);
    EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
    EXPECT_LE(server.admission().used(), server.admission().pool());
    EXPECT_LE(server.sums().most_lent(), server.admission().pool());
    drain();
    return true;
  }

  void drain() {
    while (!outbox.sent.empty()) {
      const Sent s = std::move(outbox.sent.front());
      outbox.sent.pop_front();
      if (const auto* committed = std::get_if<wire::Committed>(&s.message)) {
        EXPECT_EQ(s.to, kCoordinator);
        EXPECT_EQ(committed->version, ++reported);
        continue;
      }
      Peer& peer = peers_[s.to - 10];
      if (const auto* take = std::get_if<wire::Take>(&s.message)) {
        for (uint32_t c = 0; c < 32; ++c)
          if (take->chunks & (1u << c))
            peer.queue.push_back({wire::NodeChunk{take->step, take->block, take->first, take->last, c},
                                  facts_.chunk(take->step, take->block, {take->first, take->last}, c)});
      } else if (const auto* done = std::get_if<wire::Absorbed>(&s.message)) {
        const auto at = peer.unanswered.find({done->step, done->block, done->first, done->last});
        ASSERT_TRUE(at != peer.unanswered.end()) << "answered twice, or never offered";
        peer.unanswered.erase(at);
      } else {
        FAIL() << "unexpected message of type " << s.message.index();
      }
    }
  }

  std::deque<Peer>& peers() { return peers_; }

 private:
  const BlockTable& table_;
  uint32_t k_;
  Facts& facts_;
  std::mt19937 random_;
  std::deque<Peer> peers_;

 public:
  FakeOutbox outbox;
  FakeSink sink;
  int64_t reported = 0;
  ShardServer server;
};

constexpr int64_t kSteps = 2;

// The oracle's state after each step.
struct Expected {
  Expected(const BlockTable& table, const optim::Optimizer& optimizer, Facts& facts, uint32_t k)
      : oracle(table, optimizer, facts, k) {
    start = oracle;
    for (int64_t s = 0; s < kSteps; ++s) {
      oracle.step(s, rate_of(s));
      values.push_back(oracle.values);
    }
  }
  Oracle oracle;
  struct Start {
    std::vector<std::vector<float>> values;
    void operator=(const Oracle& o) { values = o.values; }
  } start;
  std::vector<std::vector<std::vector<float>>> values;
};

void expect_state(const Cluster& cluster, const BlockTable& table, const std::vector<std::vector<float>>& values) {
  for (uint32_t b = 0; b < table.blocks().size(); ++b)
    ASSERT_TRUE(same_bits(cluster.server.values(b), values[b])) << "block " << b;
}

class Search : public testing::TestWithParam<uint32_t> {
 protected:
  Search()
      : k(GetParam()),
        table(small_model(), 1),
        optimizer(make_optimizer("momentum = 0.9\nweight_decay = 0.01")),
        facts(table, k),
        expected(table, *optimizer, facts, k) {}

  void begin(Cluster& cluster) {
    for (uint32_t b = 0; b < table.blocks().size(); ++b) cluster.server.load(b, expected.start.values[b]);
    cluster.server.start(0);
    ASSERT_TRUE(cluster.server.on_message(kCoordinator, rates(0, kSteps)).has_value());
  }
  // Contiguous ranges: bit i of `cuts` cuts between micro-batches i and i + 1.
  std::vector<Node> ranges(uint32_t cuts) const {
    std::vector<Node> out;
    uint32_t first = 0;
    for (uint32_t i = 0; i < k; ++i) {
      if (i + 1 < k && !(cuts & (1u << i))) continue;
      out.push_back({first, i + 1});
      first = i + 1;
    }
    return out;
  }

  uint32_t k;
  BlockTable table;
  std::shared_ptr<const optim::Optimizer> optimizer;
  Facts facts;
  Expected expected;
};

TEST_P(Search, EverySplitInAnyOrderGivesTheSameBits) {
  for (uint32_t cuts = 0; cuts < (1u << (k - 1)); ++cuts) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(fmt::format("cuts {:b} seed {}", cuts, seed));
      Cluster cluster(table, k, optimizer, facts, seed % 2 ? size_t{1} << 30 : 0, seed);
      begin(cluster);
      const std::vector<Node> split = ranges(cuts);
      for (size_t i = 0; i <= split.size(); ++i) cluster.join();
      for (int64_t step = 0; step < kSteps; ++step) {
        for (size_t i = 0; i < split.size(); ++i)
          cluster.give(cluster.peers()[i], step, split[i].first, split[i].last, seed == 3);
        if (seed >= 2) cluster.give(cluster.peers().back(), step, cluster.below(k), k, false);  // comes twice
        while (cluster.deliver()) {
        }
        ASSERT_EQ(cluster.server.version(), step + 1);
        ASSERT_EQ(cluster.reported, step + 1);
        for (Peer& p : cluster.peers()) ASSERT_TRUE(p.unanswered.empty());
        expect_state(cluster, table, expected.values[static_cast<size_t>(step)]);
        ASSERT_EQ(cluster.server.admission().used(), 0u);
      }
      if (seed < 2) {
        ASSERT_EQ(cluster.server.counters().duplicates, 0u);
      }
      ASSERT_TRUE(cluster.server.on_message(kCoordinator, wire::Snapshot{kSteps, ""}).has_value());
      for (const auto& copy : cluster.sink.states.at(0).blocks)
        for (size_t s = 0; s < copy.slots.size(); ++s)
          ASSERT_TRUE(same_bits(copy.slots[s].as<float>(), expected.oracle.slots[copy.block][s]));
    }
  }
}

// Peers are lost in the middle of a block, freeze and come back; others bring the same micro-batches in other pieces.
TEST_P(Search, LossesAndFreezesCostNoGradient) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Cluster cluster(table, k, optimizer, facts, 0, seed);
    begin(cluster);
    for (int64_t step = 0; step < kSteps; ++step) {
      const std::vector<Node> split = ranges(cluster.below(1u << (k - 1)));
      std::vector<std::pair<Peer*, Node>> work;
      for (const Node& range : split) {
        Peer& peer = cluster.join();
        cluster.give(peer, step, range.first, range.last, cluster.below(3) == 0);
        work.emplace_back(&peer, range);
      }
      for (int trouble = 0; trouble < 3; ++trouble) {
        for (uint32_t n = cluster.below(12); n > 0; --n) cluster.deliver();
        const auto [victim, range] = work[cluster.below(work.size())];
        if (cluster.below(2)) {
          cluster.lose(*victim);
        } else {
          victim->frozen = true;
        }
        Peer& heir = cluster.join();
        cluster.give(heir, step, range.first, range.last, cluster.below(2));
        work.emplace_back(&heir, range);
      }
      // The last heirs live. Whoever froze comes back late.
      for (const Node& range : split) cluster.give(cluster.join(), step, range.first, range.last, false);
      while (cluster.deliver()) {
      }
      ASSERT_EQ(cluster.server.version(), step + 1);
      expect_state(cluster, table, expected.values[static_cast<size_t>(step)]);
      if (cluster.below(2)) {
        for (Peer& p : cluster.peers()) p.frozen = false;
        while (cluster.deliver()) {
        }
      }
    }
    for (Peer& p : cluster.peers()) p.frozen = false;
    while (cluster.deliver()) {
    }
    for (Peer& p : cluster.peers()) ASSERT_TRUE(p.unanswered.empty());
    expect_state(cluster, table, expected.values.back());
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, Search, testing::Range(1u, 7u));

// With many micro-batches, sums of far-apart leaves outnumber the tree's depth unless they are taken in order.
class DeepSearch : public Search {};

TEST_P(DeepSearch, LeavesFromEverywhereFitIntoTheSmallestPool) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Cluster cluster(table, k, optimizer, facts, 0, seed);
    begin(cluster);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (uint32_t i = 0; i < k; ++i) cluster.give(cluster.join(), step, i, i + 1, true);
      while (cluster.deliver()) {
      }
      ASSERT_EQ(cluster.server.version(), step + 1);
      expect_state(cluster, table, expected.values[static_cast<size_t>(step)]);
    }
    EXPECT_GT(cluster.server.sums().most_lent(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, DeepSearch, testing::Values(13u, 16u));

}  // namespace
}  // namespace dtrain::ps
