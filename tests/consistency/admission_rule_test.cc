// Each rule at a real shard server, under random arrivals: pushes in any order, twice, late, too early, of peers that
// are lost in the middle, pulls of any version, rates that come late; with the smallest pool. Beside it runs a model of
// the rule that says what counts, when a version is made and of what, and what each pull is answered with.
#include "consistency/admission_rule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "rule_text.h"
#include "tests/ps/fixture.h"

namespace dtrain::consistency {
namespace {

using ps::Node;
using Floats = std::vector<float>;

constexpr uint32_t kMicroBatches = 5;

// What differs from mode to mode.
struct Law {
  const char* name;
  const char* text;  // of the run file
  // Of a push of `step` at a block of `version`: below 0 it is late, above 0 too early.
  int (*when)(int64_t version, int64_t step);
  int64_t needed = 0;      // pushes of a version; 0: the tree's root
  int64_t stride = 1;      // of versions
  int64_t ahead = 0;       // versions that pushes may be ahead
  bool by_itself = false;  // every block by itself, by one with every push
  bool newest = false;
  float lambda = 0;
};

const Law kSync{.name = "Sync", .text = "'sync'", .when = [](int64_t v, int64_t s) { return s < v ? -1 : s > v; }};
const Law kBackup{.name = "Backup",
                  .text = "{ type = 'backup', needed = 3 }",
                  .when = [](int64_t v, int64_t s) { return s < v ? -1 : s > v; },
                  .needed = 3};
const Law kBackupOfOne{.name = "BackupOfOne",
                       .text = "{ type = 'backup', needed = 1 }",
                       .when = [](int64_t v, int64_t s) { return s < v ? -1 : s > v; },
                       .needed = 1};
const Law kFresh{.name = "StaleByNothing", .text = "{ type = 'stale', bound = 0 }", .when = [](int64_t v, int64_t s) {
                   return s < v ? -1 : s > v;
                 }};
const Law kStale{.name = "Stale",
                 .text = "{ type = 'stale', bound = 2 }",
                 .when = [](int64_t v, int64_t s) { return s < v ? -1 : s > v + 2; },
                 .ahead = 2,
                 .newest = true};
const Law kLocal{.name = "Local",
                 .text = "{ type = 'local', steps = 20 }",
                 .when = [](int64_t v, int64_t s) { return s < v ? -1 : s > v; },
                 .stride = 20};
const Law kAsync{.name = "Async",
                 .text = "'async'",
                 .when = [](int64_t v, int64_t s) { return s > v ? 1 : 0; },
                 .needed = 1,
                 .by_itself = true,
                 .newest = true};
const Law kBounded{.name = "AsyncBounded",
                   .text = "{ type = 'async', most_lag = 3, delay_compensation = 0.5 }",
                   .when = [](int64_t v, int64_t s) { return s > v        ? 1
                                                             : v - s >= 3 ? -1
                                                                          : 0; },
                   .needed = 1,
                   .by_itself = true,
                   .newest = true,
                   .lambda = 0.5F};

struct Answer {
  wire::Rank to = 0;
  uint32_t block = 0;
  int64_t version = 0;
  bool gone = false;
  auto operator<=>(const Answer&) const = default;
};

// The server as the rule wants it.
class Model {
 public:
  Model(const Law& law, const ps::BlockTable& table, ps::Facts& facts, const optim::Optimizer& optimizer)
      : law_(law), table_(table), facts_(facts), optimizer_(optimizer) {
    const ps::Oracle start(table, optimizer, facts, kMicroBatches);
    for (uint32_t id = 0; id < table.blocks().size(); ++id) {
      Block& b = blocks.emplace_back();
      b.now = b.next = b.versions[0] = start.values[id];
      b.slots = start.slots[id];
      b.came.resize(table.block(id).chunks());
      b.applied.resize(table.block(id).chunks());
    }
  }

  struct Block {
    int64_t version = 0;
    Floats now, next;
    std::map<int64_t, Floats> versions;  // the last few
    std::vector<Floats> slots;
    std::vector<std::map<int64_t, std::vector<Node>>> came;  // of each chunk, by step, in the order of their coming
    std::vector<bool> applied;                               // chunks of the next version
    std::map<wire::Rank, int64_t> parked;
    std::map<wire::Rank, Floats> read;
    bool begun() const { return std::ranges::find(applied, true) != applied.end(); }
  };

  int64_t step() const {
    int64_t least = INT64_MAX;
    for (const Block& b : blocks) least = std::min(least, b.version);
    return least;
  }
  bool late(uint32_t id, int64_t step) const { return law_.when(blocks[id].version, step) < 0; }
  bool early(uint32_t id, int64_t step) const {
    return law_.when(blocks[id].version, step) > 0 || (!law_.by_itself && law_.when(this->step(), step) > 0);
  }
  bool complete(uint32_t id, uint32_t c, int64_t step) const {
    const auto at = blocks[id].came[c].find(step);
    size_t had = 0;
    if (at != blocks[id].came[c].end())
      for (const Node& n : at->second) had += law_.needed == 0 ? n.size() : 1;
    return had >= (law_.needed == 0 ? kMicroBatches : static_cast<size_t>(law_.needed));
  }
  // Whether the chunk of this node is needed no more.
  bool known(uint32_t id, uint32_t c, int64_t step, const Node& node) const {
    if (late(id, step) || complete(id, c, step)) return true;
    const auto at = blocks[id].came[c].find(step);
    if (at == blocks[id].came[c].end()) return false;
    for (uint32_t k = node.first; k < node.last; ++k)
      if (std::ranges::none_of(at->second, [&](const Node& had) { return had.contains({k, k + 1}); })) return false;
    return true;
  }
  bool known(uint32_t id, int64_t step, const Node& node) const {
    for (uint32_t c = 0; c < blocks[id].came.size(); ++c)
      if (!known(id, c, step, node)) return false;
    return true;
  }

  void chunk(wire::Rank from, int64_t step, uint32_t id, uint32_t c, const Node& node) {
    if (law_.by_itself) {
      if (!late(id, step)) apply(id, c, compensated(from, id, c, node));
      return make_versions();
    }
    if (known(id, c, step, node)) return;
    std::vector<Node>& came = blocks[id].came[c][step];
    std::erase_if(came, [&](const Node& had) { return node.contains(had); });
    came.push_back(node);
    make_versions();
  }
  void rate(int64_t step, double rate) {
    rates_[step] = rate;
    make_versions();
  }
  // A push that ends in the middle.
  void abandon(uint32_t id) {
    blocks[id].applied.assign(blocks[id].applied.size(), true);
    make_versions();
  }

  void pull(wire::Rank from, uint32_t id, int64_t version) {
    Block& b = blocks[id];
    if (version > b.version) {
      b.parked[from] = version;
    } else if (law_.newest) {
      b.parked.erase(from);
      answer(from, id, b.version);
    } else if (version == b.version || (version + law_.stride == b.version && !b.begun())) {
      answer(from, id, version);
    } else {
      answers.push_back({from, id, version, true});
    }
  }
  void forget(wire::Rank peer) {
    for (Block& b : blocks) b.parked.erase(peer), b.read.erase(peer);
  }

  std::vector<Block> blocks;
  std::vector<Answer> answers;
  std::set<uint32_t> made;  // blocks that have another version since somebody looked

 private:
  void answer(wire::Rank to, uint32_t id, int64_t version) {
    answers.push_back({to, id, version, false});
    blocks[id].read[to] = blocks[id].now;
  }

  std::span<const float> chunk_of(const Floats& values, uint32_t id, uint32_t c) const {
    return std::span(values).subspan(c * static_cast<size_t>(ps::kChunkElements),
                                     static_cast<size_t>(table_.block(id).chunk_elements(c)));
  }

  Floats compensated(wire::Rank from, uint32_t id, uint32_t c, const Node& node) {
    const auto gradient = chunk_of(facts_.node(0, id, node), id, c), now = chunk_of(blocks[id].now, id, c);
    Floats out(gradient.begin(), gradient.end());
    const auto read = blocks[id].read.find(from);
    const bool trainable = table_.block(id).kind == ParameterKind::kTrainable;
    if (law_.lambda == 0 || read == blocks[id].read.end() || !trainable) return out;
    const auto then = chunk_of(read->second, id, c);
    for (size_t i = 0; i < out.size(); ++i) out[i] += law_.lambda * out[i] * out[i] * (now[i] - then[i]);
    return out;
  }

  void apply(uint32_t id, uint32_t c, const Floats& sum) {
    Block& b = blocks[id];
    const size_t first = c * static_cast<size_t>(ps::kChunkElements);
    const auto pushes = static_cast<float>(law_.needed == 0 ? kMicroBatches : law_.needed);
    const ParameterInfo& p = table_.parameters()[static_cast<size_t>(table_.block(id).parameter)];
    b.applied[c] = true;
    if (p.kind == ParameterKind::kStatistic) {
      for (size_t i = 0; i < sum.size(); ++i) b.next[first + i] = sum[i] / pushes;
      return;
    }
    std::vector<float*> slots;
    for (Floats& slot : b.slots) slots.push_back(slot.data() + first);
    const double rate = law_.by_itself ? rates_.rbegin()->second : rates_.at(b.version);
    optimizer_.update({rate * p.rate_multiplier, b.version / law_.stride, 1.0F / pushes, p.decay_multiplier},
                      sum.size(), sum.data(), b.now.data() + first, b.next.data() + first, slots.data());
  }

  // Until nothing more follows.
  void make_versions() {
    for (bool more = true; more;) {
      more = false;
      for (uint32_t id = 0; id < blocks.size(); ++id) more |= make_version(id);
    }
  }
  bool make_version(uint32_t id) {
    Block& b = blocks[id];
    const bool due = law_.by_itself || (b.version == step() && rates_.contains(b.version));
    for (uint32_t c = 0; c < b.came.size() && due && !law_.by_itself; ++c) {
      if (b.applied[c] || !complete(id, c, b.version)) continue;
      Floats sum;
      if (law_.needed == 0) {
        const auto root = chunk_of(facts_.root(b.version, id), id, c);
        sum.assign(root.begin(), root.end());
      }
      for (size_t i = 0; law_.needed > 0 && i < b.came[c][b.version].size(); ++i) {
        const auto push = chunk_of(facts_.node(b.version, id, b.came[c][b.version][i]), id, c);
        if (i == 0) sum.assign(push.begin(), push.end());
        for (size_t e = 0; i > 0 && e < sum.size(); ++e) sum[e] += push[e];
      }
      apply(id, c, sum);
    }
    if (!due || std::ranges::find(b.applied, false) != b.applied.end()) return false;
    for (auto& came : b.came) came.erase(b.version);
    b.applied.assign(b.applied.size(), false);
    b.now = b.next;
    b.version += law_.stride;
    b.versions[b.version] = b.now;
    if (b.versions.size() > 4) b.versions.erase(b.versions.begin());
    made.insert(id);
    for (auto at = b.parked.begin(); at != b.parked.end();) {
      if (at->second > b.version) {
        ++at;
        continue;
      }
      answer(at->first, id, b.version);
      at = b.parked.erase(at);
    }
    return true;
  }

  const Law& law_;
  const ps::BlockTable& table_;
  ps::Facts& facts_;
  const optim::Optimizer& optimizer_;
  std::map<int64_t, double> rates_;
};

using Push = std::tuple<int64_t, uint32_t, uint32_t, uint32_t>;  // step, block, node

struct Peer {
  std::deque<wire::Message> queue;  // under way to the server, in order
  std::map<Push, bool> unanswered;  // whether something of it was taken in
};

constexpr wire::Rank kCoordinator = 0, kFirst = 10, kPeers = 4, kReliable = kFirst + kPeers;
constexpr int64_t kVersions = 4;

class Drive {
 public:
  Drive(const Law& law, uint32_t seed)
      : law_(law),
        table_(ps::small_model(), 1),
        facts_(table_, kMicroBatches),
        model_(law, table_, facts_, *optimizer_),
        random_(seed),
        server_(table_, 0, {.micro_batches = kMicroBatches, .rule = rule_of(law.text)}, *optimizer_, outbox_, sink_) {
    for (uint32_t b = 0; b < model_.blocks.size(); ++b) server_.load(b, model_.blocks[b].now);
    server_.start(0);
  }

  void run() {
    for (int64_t v = 0; v < kVersions; ++v)
      peers_[kCoordinator].queue.push_back(wire::Rates{v * law_.stride, {ps::rate_of(v)}});
    if (law_.by_itself) deliver();  // workers have nothing to do before
    for (int i = 0; i < 150; ++i) {
      const wire::Rank peer = kFirst + below(kPeers);
      switch (below(8)) {
        case 0:
          pull(peer);
          break;
        case 1:
          if (below(4) == 0) lose(peer);
          break;
        case 2:
        case 3:
          push(peer, below(static_cast<uint32_t>(model_.blocks.size())), any_step());
          break;
        default:
          deliver();
      }
    }
    // Whatever has gone wrong, one who brings everything ends it.
    for (int i = 0; i < 40; ++i) {
      while (deliver()) {
      }
      if (law_.by_itself ? i == 2 : model_.step() == kVersions * law_.stride) break;
      for (uint32_t b = 0; b < model_.blocks.size(); ++b)
        for (uint32_t k = 0; k < kMicroBatches; ++k) push_node(kReliable, b, model_.blocks[b].version, next_node(k));
    }
    check_end();
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // From what has long been over to what has not begun.
  int64_t any_step() {
    const int64_t back = 2, on = law_.ahead + 1;
    const int64_t step = model_.step() + (below(static_cast<uint32_t>(back + on + 1)) - back) * law_.stride;
    return std::clamp<int64_t>(step, 0, (kVersions - 1) * law_.stride);
  }
  Node next_node(uint32_t k) {
    if (law_.by_itself) return {++pushed_, pushed_ + 1};  // every push is another one
    return {k, k + 1};
  }
  void push(wire::Rank peer, uint32_t block, int64_t step) {
    if (law_.by_itself) step = std::max<int64_t>(0, model_.blocks[block].version + 1 - below(6));
    if (law_.needed > 0) return push_node(peer, block, step, next_node(below(kMicroBatches)));
    const uint32_t first = below(kMicroBatches);
    const uint32_t last = first + 1 + below(kMicroBatches - first);
    for (const Node& node : ps::maximal_nodes(first, last, kMicroBatches)) push_node(peer, block, step, node);
  }
  void push_node(wire::Rank peer, uint32_t block, int64_t step, const Node& node) {
    if (!peers_[peer].unanswered.try_emplace({step, block, node.first, node.last}, false).second) return;
    if (table_.block(block).pushed())
      peers_[peer].queue.push_back(wire::NodeChunk{step, block, node.first, node.last, 0});
    else
      peers_[peer].queue.push_back(wire::Offer{step, block, node.first, node.last});
  }
  void pull(wire::Rank peer) {
    const int64_t version = law_.by_itself ? 0 : any_step();
    peers_[peer].queue.push_back(wire::Pull{below(static_cast<uint32_t>(model_.blocks.size())), version});
  }

  void lose(wire::Rank peer) {
    peers_.erase(peer);
    std::vector<uint32_t> torn;
    for (uint32_t b = 0; b < model_.blocks.size(); ++b)
      if (law_.by_itself && model_.blocks[b].begun() && holder_[b] == peer) torn.push_back(b);
    model_.forget(peer);
    for (uint32_t b : torn) model_.abandon(b);
    server_.peer_lost(peer);
    look();
  }

  bool deliver() {
    std::vector<wire::Rank> with;
    for (const auto& [rank, peer] : peers_)
      if (!peer.queue.empty()) with.push_back(rank);
    if (with.empty()) return false;
    const wire::Rank from = with[below(static_cast<uint32_t>(with.size()))];
    const wire::Message message = peers_[from].queue.front();
    peers_[from].queue.pop_front();
    ByteSpan payload;
    std::visit([&](const auto& m) { tell_model(from, m, payload); }, message);
    const Status status = server_.on_message(from, message, payload);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_LE(server_.admission().used(), server_.admission().pool());
    look();
    return true;
  }

  void tell_model(wire::Rank from, const wire::NodeChunk& m, ByteSpan& payload) {
    const Node node{m.first, m.last};
    payload = facts_.chunk(law_.by_itself ? 0 : m.step, m.block, node, m.chunk);
    if (model_.early(m.block, m.step)) {
      peers_[from].unanswered.erase({m.step, m.block, m.first, m.last});
    } else {
      const auto at = peers_[from].unanswered.find({m.step, m.block, m.first, m.last});
      if (at != peers_[from].unanswered.end()) at->second |= !model_.known(m.block, m.chunk, m.step, node);
      if (law_.by_itself && !model_.late(m.block, m.step)) holder_[m.block] = from;
      model_.chunk(from, m.step, m.block, m.chunk, node);
    }
  }
  void tell_model(wire::Rank from, const wire::Offer& m, ByteSpan&) {
    if (model_.early(m.block, m.step)) peers_[from].unanswered.erase({m.step, m.block, m.first, m.last});
  }
  void tell_model(wire::Rank from, const wire::Pull& m, ByteSpan&) { model_.pull(from, m.block, m.version); }
  void tell_model(wire::Rank, const wire::Rates& m, ByteSpan&) { model_.rate(m.from, m.rates[0]); }
  template <typename M>
  void tell_model(wire::Rank, const M&, ByteSpan&) {}

  // What the server has sent, and the versions that were made.
  void look() {
    std::vector<Answer> answers;
    for (; !outbox_.sent.empty(); outbox_.sent.pop_front()) {
      const ps::Sent& s = outbox_.sent.front();
      if (const auto* m = std::get_if<wire::Committed>(&s.message)) {
        EXPECT_EQ(m->version, committed_ += law_.stride);
      } else if (const auto* m = std::get_if<wire::Gone>(&s.message)) {
        EXPECT_EQ(m->newest, model_.blocks[m->block].version);
        answers.push_back({s.to, m->block, m->version, true});
      } else if (const auto* m = std::get_if<wire::ParameterChunk>(&s.message)) {
        const auto& versions = model_.blocks[m->block].versions;
        const auto values = versions.find(m->version);
        ASSERT_TRUE(values != versions.end()) << "version " << m->version << " is sent";
        EXPECT_TRUE(std::ranges::equal(s.payload.bytes, bytes(values->second, m->block, m->chunk)))
            << "version " << m->version << " is another";
        if (m->chunk == 0) answers.push_back({s.to, m->block, m->version, false});
      } else if (const auto* m = std::get_if<wire::Take>(&s.message)) {
        for (uint32_t c = 0; c < table_.block(m->block).chunks(); ++c) {
          if (!(m->chunks >> c & 1)) continue;
          EXPECT_FALSE(model_.known(m->block, c, m->step, {m->first, m->last})) << "asks for what it does not need";
          peers_[s.to].queue.push_back(wire::NodeChunk{m->step, m->block, m->first, m->last, c});
        }
      } else if (const auto* m = std::get_if<wire::Absorbed>(&s.message)) {
        answered(s.to, *m);
      } else {
        ADD_FAILURE() << "a message of type " << s.message.index();
      }
    }
    std::ranges::sort(answers);
    std::ranges::sort(model_.answers);
    EXPECT_TRUE(answers == model_.answers) << "pulls are answered otherwise";
    model_.answers.clear();
    for (uint32_t b : model_.made)
      EXPECT_TRUE(ps::same_bits(server_.values(b), model_.blocks[b].now))
          << "version " << model_.blocks[b].version << " of block " << b << " is another";
    model_.made.clear();
  }
  ByteSpan bytes(const Floats& values, uint32_t block, uint32_t c) const {
    return std::as_bytes(std::span(values).subspan(c * static_cast<size_t>(ps::kChunkElements),
                                                   static_cast<size_t>(table_.block(block).chunk_elements(c))));
  }
  void answered(wire::Rank to, const wire::Absorbed& m) {
    const auto at = peers_[to].unanswered.find({m.step, m.block, m.first, m.last});
    if (at == peers_[to].unanswered.end()) {
      ADD_FAILURE() << "answered twice, or never offered";
      return;
    }
    if (law_.by_itself) {
      EXPECT_EQ(m.dropped, !at->second);
      dropped_ += m.dropped;
      EXPECT_TRUE(!m.dropped || model_.late(m.block, m.step));
    } else {
      EXPECT_TRUE(model_.known(m.block, m.step, {m.first, m.last})) << "answered before all is known";
    }
    EXPECT_EQ(m.version, model_.blocks[m.block].version);
    peers_[to].unanswered.erase(at);
  }

  void check_end() {
    for (uint32_t b = 0; b < model_.blocks.size(); ++b) {
      EXPECT_TRUE(ps::same_bits(server_.values(b), model_.blocks[b].now)) << "block " << b;
      EXPECT_TRUE(law_.by_itself || model_.blocks[b].version == kVersions * law_.stride) << "block " << b;
    }
    for (const auto& [rank, peer] : peers_) EXPECT_TRUE(peer.unanswered.empty()) << "of task " << rank;
    EXPECT_EQ(server_.admission().used(), 0u);
    EXPECT_EQ(server_.version(), law_.by_itself ? 0 : model_.step());
  }

  const Law& law_;
  const ps::BlockTable table_;
  const std::shared_ptr<const optim::Optimizer> optimizer_ = ps::make_optimizer("momentum = 0.5\nweight_decay = 0.01");
  ps::Facts facts_;
  Model model_;
  std::mt19937 random_;
  ps::FakeOutbox outbox_;
  ps::FakeSink sink_;
  ps::ShardServer server_;
  std::map<wire::Rank, Peer> peers_;
  std::map<uint32_t, wire::Rank> holder_;  // of a block, whose push is being taken
  uint32_t pushed_ = 0;
  int64_t committed_ = 0;
  uint64_t dropped_ = 0;
};

class AdmissionRules : public testing::TestWithParam<const Law*> {};

TEST_P(AdmissionRules, AServerDoesWhatTheModelOfTheRuleSays) {
  constexpr uint32_t kSeeds = 60;
  for (uint32_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", GetParam()->text, seed));
    Drive(*GetParam(), seed).run();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AdmissionRules,
                         testing::Values(&kSync, &kBackup, &kBackupOfOne, &kFresh, &kStale, &kLocal, &kAsync,
                                         &kBounded),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace dtrain::consistency
