// One simulated task: the roles that the scenario gives its rank, on the simulated network. It lives several lives;
// each begins with nothing. What a real process does between transport and roles, it does in the plainest way.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "cluster/coordinator.h"
#include "net/handler.h"
#include "ps/shard_server.h"
#include "sim/momentum.h"
#include "sim/sim_worker.h"

namespace dtrain::sim {

class SimTask final : public net::Handler, public ps::SnapshotSink {
 public:
  struct World {
    SimWorker::World common;
    const Momentum& optimizer;
    cluster::Coordinator& coordinator;  // of rank 0
    // What a server has written of a version.
    std::function<void(int64_t version, uint32_t block, std::span<const float> values)> on_written;
    std::function<void(wire::Rank)> restart;  // ends this life and begins another, soon
  };
  SimTask(const World& world, wire::Rank rank) : world_(world), rank_(rank), draw_(scenario().seed, "task", rank) {}

  void begin_life(uint64_t life);  // when the network has started it
  void end_life();
  void freeze(bool frozen);
  void leave();  // as its user wants: says so, and does nothing any more
  const ps::ShardServer* server() const { return server_.get(); }

 private:
  void on_connected(net::Rank peer, uint64_t incarnation) override;
  void on_message(net::Rank from, const wire::Message& message, ByteSpan payload) override;
  void on_lost(net::Rank peer, const std::string& reason) override;
  void on_refused(net::Rank, const wire::Refuse&) override {}
  void on_unreachable(net::Rank, const std::string&) override {}
  void snapshot(const wire::Snapshot& order, ps::ShardState state) override;

  Status dispatch(wire::Rank from, const wire::Message& message, ByteSpan payload);
  Status sabotaged(wire::Rank from, wire::Message message, ByteSpan payload);
  void begin(const wire::Begin& m);
  void join_when_connected();
  const Scenario& scenario() const { return world_.common.scenario; }
  net::Transport& transport() { return world_.common.network.transport(rank_); }
  bool sabotage(Sabotage which) const { return scenario().sabotage == which && world_.common.sabotage_once(); }

  World world_;
  const wire::Rank rank_;
  Draw draw_;
  uint64_t life_ = 0;
  bool leaving_ = false;
  std::set<wire::Rank> servers_;  // connected
  std::unique_ptr<ps::ShardServer> server_;
  std::unique_ptr<SimWorker> worker_;
};

}  // namespace dtrain::sim
