// A run of some shard servers with a guest desk each, driven by messages alone: steps are taken block by block, so that
// a test can stop in the middle of one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ps/fixture.h"
#include "watch/guest_desk.h"

namespace dtrain::watch {

constexpr wire::Rank kGuest = wire::kFirstGuest + 3, kOtherGuest = wire::kFirstGuest + 4, kWorker = 9;

// Remembers what is sent; a guest that does not read keeps what it is sent in its queue.
class FakeTransport final : public net::Transport {
 public:
  void send(wire::Rank to, wire::Message message, wire::Payload payload = {}) override {
    if (slow.contains(to)) queued[to] += payload.bytes.size();
    sent.push_back({to, std::move(message), std::move(payload)});
  }
  wire::Rank self() const override { return 0; }
  bool connected(wire::Rank) const override { return true; }
  size_t queued_bytes(wire::Rank to) const override { return queued.contains(to) ? queued.at(to) : 0; }
  void disconnect(wire::Rank peer, const std::string& reason) override { cut[peer] = reason; }

  // Takes out all messages of one kind to `to`.
  template <typename M>
  std::vector<M> take(wire::Rank to) {
    std::vector<M> out;
    std::erase_if(sent, [&](const ps::Sent& s) {
      if (s.to != to || !std::holds_alternative<M>(s.message)) return false;
      out.push_back(std::get<M>(s.message));
      return true;
    });
    return out;
  }

  std::deque<ps::Sent> sent;
  std::set<wire::Rank> slow;
  std::map<wire::Rank, size_t> queued;
  std::map<wire::Rank, std::string> cut;
};

struct Server {
  FakeTransport transport;
  ps::FakeSink sink;
  std::unique_ptr<ps::ShardServer> server;
  std::unique_ptr<GuestDesk> desk;
};

class SmallCluster {
 public:
  static constexpr uint32_t kMicroBatches = 2;
  explicit SmallCluster(uint32_t servers, bool allow_put = true)
      : table(ps::small_model(), servers),
        optimizer(ps::make_optimizer("momentum = 0.9")),
        facts(table, kMicroBatches),
        oracle(table, *optimizer, facts, kMicroBatches) {
    GuestDeskSetup setup;
    setup.run = "small";
    setup.allow_put = allow_put;
    for (uint32_t s = 0; s < servers; ++s) {
      setup.server_ranks.push_back(s);
      setup.tasks.push_back({s, "/job:ps/task:" + std::to_string(s), "h:1", false, true});
    }
    for (uint32_t s = 0; s < servers; ++s) {
      Server& server = *all.emplace_back(std::make_unique<Server>());
      server.server =
          std::make_unique<ps::ShardServer>(table, s, ps::ShardServerOptions{kMicroBatches, {}, 1u << 30, 0, {}},
                                            *optimizer, server.transport, server.sink);
      ps::load_all(*server.server, s, table, oracle);
      server.server->start(0);
      setup.self = s;
      setup.server_index = s;
      server.desk = std::make_unique<GuestDesk>(setup, table, server.transport, log);
      if (s == 0)
        server.desk->coordinate([this] { return position; },
                                [this](int64_t version, const std::string& tensor) { puts[tensor] = version; });
      server.desk->serve(*server.server);
      server.desk->on_connected(kGuest, now);
      server.desk->on_connected(kOtherGuest, now);
    }
  }

  Status guest(uint32_t server, const wire::Message& message, ByteSpan payload = {}, wire::Rank guest = kGuest) {
    return all[server]->desk->on_message(guest, message, payload, now);
  }
  // The coordinator's messages, then what workers give for one block; the oracle does the same.
  void rates(int64_t until) {
    for (const auto& s : all) EXPECT_TRUE(s->server->on_message(0, ps::rates(position.rated, until)));
    position.rated = until;
  }
  void step_block(uint32_t block, int64_t step) {
    ps::ShardServer& server = *all[table.block(block).server]->server;
    FakeTransport& transport = all[table.block(block).server]->transport;
    const ps::Node node{0, kMicroBatches};
    if (!table.block(block).pushed()) {
      EXPECT_TRUE(server.on_message(kWorker, wire::Offer{step, block, node.first, node.last}));
    }
    transport.take<wire::Take>(kWorker);
    for (uint32_t c = 0; c < table.block(block).chunks(); ++c)
      EXPECT_TRUE(server.on_message(kWorker, wire::NodeChunk{step, block, node.first, node.last, c},
                                    facts.chunk(step, block, node, c)));
    transport.take<wire::Absorbed>(kWorker);
  }
  void step(int64_t step) {
    if (position.rated <= step) rates(step + 1);
    for (uint32_t b = 0; b < table.blocks().size(); ++b) step_block(b, step);
    position.step = step + 1;
    oracle.step(step, ps::rate_of(step));
  }
  // What the blocks of a tensor have in the oracle, one after the other.
  std::vector<float> truth(uint32_t tensor) const {
    std::vector<float> out;
    for (const uint32_t b : table.of_parameter(static_cast<ParameterIndex>(tensor)))
      out.insert(out.end(), oracle.values[b].begin(), oracle.values[b].end());
    return out;
  }
  // Puts together what server `s` has sent for a tensor.
  std::vector<float> received(uint32_t s, uint32_t tensor, int64_t version, wire::Rank guest = kGuest) {
    std::vector<float> out(static_cast<size_t>(table.parameters()[tensor].shape.elements()), NAN);
    for (const ps::Sent& sent : all[s]->transport.sent) {
      const auto* m = std::get_if<wire::TensorChunk>(&sent.message);
      if (!m || sent.to != guest || m->tensor != tensor || m->version != version) continue;
      std::memcpy(out.data() + m->first, sent.payload.bytes.data(), sent.payload.bytes.size());
    }
    return out;
  }

  Instant now = 0;
  ps::BlockTable table;
  std::shared_ptr<const optim::Optimizer> optimizer;
  ps::Facts facts;
  ps::Oracle oracle;
  NullLog log;
  RunPosition position{0, 0, 100, "training", false};
  std::map<std::string, int64_t> puts;
  std::vector<std::unique_ptr<Server>> all;
};

}  // namespace dtrain::watch
