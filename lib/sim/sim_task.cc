#include "sim/sim_task.h"

namespace dtrain::sim {

void SimTask::begin_life(uint64_t life) {
  life_ = life;
  leaving_ = false;
  servers_.clear();
  if (scenario().serves(rank_)) servers_.insert(rank_);
  join_when_connected();
}

void SimTask::end_life() {
  life_ = 0;
  server_.reset();
  worker_.reset();
}

void SimTask::leave() {
  leaving_ = true;
  worker_.reset();
  transport().send(0, wire::Stopped{});
}

void SimTask::freeze(bool frozen) {
  if (worker_) worker_->freeze(frozen);
}

// A worker first reaches all servers: what it asks of one that it does not reach would be lost.
void SimTask::join_when_connected() {
  if (!servers_.contains(0) || (scenario().computes(rank_) && servers_.size() < scenario().servers)) return;
  transport().send(0, wire::Join{.computes = scenario().computes(rank_),
                                 .serves = scenario().serves(rank_),
                                 .threads = 1 + rank_,
                                 .incarnation = life_});
}

void SimTask::on_connected(net::Rank peer, uint64_t) {
  if (rank_ == 0) world_.coordinator.on_connected(peer);
  if (leaving_) return;
  if (!scenario().serves(peer)) return;
  servers_.insert(peer);
  if (scenario().computes(rank_) || peer == 0) join_when_connected();
}

void SimTask::on_lost(net::Rank peer, const std::string& reason) {
  if (rank_ == 0 && !sabotage(Sabotage::kSilentLoss)) world_.coordinator.on_lost(peer, reason);
  if (server_) server_->peer_lost(peer);
  // Without a server or the coordinator a worker begins anew.
  if (!leaving_ && !scenario().serves(rank_) && scenario().serves(peer)) world_.restart(rank_);
}

void SimTask::on_message(net::Rank from, const wire::Message& message, ByteSpan payload) {
  const Status status =
      scenario().sabotage == Sabotage::kNone ? dispatch(from, message, payload) : sabotaged(from, message, payload);
  if (!status) world_.common.fail(fmt::format("task {}: {}", rank_, status.error().message));
}

Status SimTask::dispatch(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  return std::visit(
      [&](const auto& m) -> Status {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, wire::Begin>) {
          begin(m);
        } else if constexpr (std::is_same_v<M, wire::Stop>) {
          leaving_ = true;
          worker_.reset();
          transport().send(0, wire::Stopped{});
        } else if constexpr (std::is_same_v<M, wire::Assign> || std::is_same_v<M, wire::WorkerRates> ||
                             std::is_same_v<M, wire::Take> || std::is_same_v<M, wire::Absorbed> ||
                             std::is_same_v<M, wire::ParameterChunk> || std::is_same_v<M, wire::Gone>) {
          if (worker_) return worker_->on_message(from, message, payload);
        } else if constexpr (std::is_same_v<M, wire::Rates> || std::is_same_v<M, wire::NormFactor> ||
                             std::is_same_v<M, wire::Snapshot> || std::is_same_v<M, wire::Offer> ||
                             std::is_same_v<M, wire::NodeChunk> || std::is_same_v<M, wire::Pull>) {
          if (server_) return server_->on_message(from, message, payload);
        } else if (rank_ == 0) {
          return world_.coordinator.on_message(from, message);
        }
        return {};
      },
      message);
}

void SimTask::begin(const wire::Begin& m) {
  if (scenario().serves(rank_)) {
    server_ = std::make_unique<ps::ShardServer>(
        world_.common.table, rank_,
        ps::ShardServerOptions{.micro_batches = m.micro_batches,
                               .norms = ps::norm_rounds(scenario().clip_norm.has_value(), scenario().norm_need),
                               .pool_bytes = 0,  // the smallest
                               .coordinator = 0,
                               .in_place = {},
                               .rule = scenario().rule},
        world_.optimizer, transport(), *this);
    const Values values = initial_values(scenario().parameters);
    for (const uint32_t id : world_.common.table.of_server(rank_)) {
      const ps::Block& block = world_.common.table.block(id);
      server_->load(id, std::span(values[static_cast<size_t>(block.parameter)])
                            .subspan(static_cast<size_t>(block.first), static_cast<size_t>(block.elements)));
    }
    server_->start(m.step);
  }
  if (scenario().computes(rank_)) worker_ = std::make_unique<SimWorker>(world_.common, rank_, life_);
  transport().send(0, wire::Ready{});
}

void SimTask::snapshot(const wire::Snapshot& order, ps::ShardState state) {
  const Instant at = world_.common.clock.now() + draw_.between(0, 30'000) * kMicrosecond;
  auto held = std::make_shared<ps::ShardState>(std::move(state));
  world_.common.network.at(at, [this, order, held, life = life_] {
    if (life != life_) return;
    const bool late = sabotage(Sabotage::kLateSnapshot);
    for (const auto& copy : held->blocks) {
      world_.on_written(order.version, copy.block, late ? server_->values(copy.block) : copy.values->as<const float>());
    }
    transport().send(
        0, wire::SnapshotDone{.version = order.version, .file = "shard", .bytes = 0, .sha256 = {}, .error = ""});
  });
}

// As dispatch, with the scenario's mistake made once.
Status SimTask::sabotaged(wire::Rank from, wire::Message message, ByteSpan payload) {
  std::vector<std::byte> other;
  if (const auto* m = std::get_if<wire::MetricNode>(&message)) {
    if (m->kind == wire::StepKind::kTrain && sabotage(Sabotage::kLostMetrics)) return {};
  } else if (std::holds_alternative<wire::Assign>(message)) {
    if (sabotage(Sabotage::kLostAssignment)) return {};
  } else if (const auto* m = std::get_if<wire::ParameterChunk>(&message)) {
    if (m->version > 0 && worker_ && !world_.common.table.block(m->block).frozen() &&
        sabotage(Sabotage::kStaleParameters)) {
      const Values first = initial_values(scenario().parameters);
      const ps::Block& block = world_.common.table.block(m->block);
      const float* values =
          first[static_cast<size_t>(block.parameter)].data() + block.first + m->chunk * ps::kChunkElements;
      const auto bytes = std::as_bytes(std::span(values, payload.size() / sizeof(float)));
      other.assign(bytes.begin(), bytes.end());
      payload = other;
    }
  } else if (const auto* m = std::get_if<wire::NodeChunk>(&message)) {
    if (m->chunk == 1 && sabotage(Sabotage::kHalfBlock)) {
      other.assign(payload.size(), std::byte{0});
      payload = other;
    }
  } else if (auto* m = std::get_if<wire::NormFactor>(&message)) {
    if (sabotage(Sabotage::kOtherFactor)) m->factor *= 0.5;
  } else if (auto* m = std::get_if<wire::Rates>(&message)) {
    if (sabotage(Sabotage::kOtherRate)) m->rates[0] *= 1.5;
  }
  return dispatch(from, message, payload);
}

}  // namespace dtrain::sim
