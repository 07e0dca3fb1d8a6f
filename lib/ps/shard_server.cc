#include "ps/shard_server.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "consistency/registry.h"
#include "ps/arrival_sum.h"
#include "ps/chunk_sum.h"

namespace dtrain::ps {
namespace {

constexpr uint32_t kNotHere = UINT32_MAX;
// Of a block that a worker has unanswered at most, beside those between two fetches: each holds a set of gradients.
constexpr int64_t kMostPushes = 16;

template <typename T, typename... Any>
constexpr bool is_one_of = (std::is_same_v<T, Any> || ...);

uint32_t pushes(const consistency::Mode& mode, uint32_t micro_batches) {
  return mode.needed == 0 ? micro_batches : static_cast<uint32_t>(mode.needed);
}

std::unique_ptr<PartialSum> make_sum(const consistency::Mode& mode, uint32_t micro_batches) {
  if (mode.needed == 0) return std::make_unique<ChunkSum>(micro_batches);
  return std::make_unique<ArrivalSum>(static_cast<uint32_t>(mode.needed));
}

}  // namespace

tl::unexpected<Error> ShardServer::broken(wire::Rank from, const std::string& what) {
  return fail(ExitCode::kPeerLost, fmt::format("task {} breaks the protocol: {}", from, what));
}

ShardServer::ShardServer(const BlockTable& table, uint32_t server, ShardServerOptions options,
                         const optim::Optimizer& optimizer, wire::Outbox& outbox, SnapshotSink& snapshots)
    : table_(table),
      server_(server),
      options_(std::move(options)),
      rule_(options_.rule ? options_.rule : consistency::synchronous()),
      pushes_(pushes(rule_->mode(), options_.micro_batches)),
      optimizer_(optimizer),
      outbox_(outbox),
      snapshots_(snapshots),
      place_(table.blocks().size(), kNotHere),
      sums_(options_.counts_only),
      pushed_sums_(options_.counts_only),
      admission_(table, server, options_.micro_batches, options_.pool_bytes, rule_->mode().needed == 0),
      updates_(options_.pulls) {
  DTRAIN_CHECK(server < table.servers() && options_.micro_batches > 0);
  DTRAIN_CHECK(options_.in_place.empty() || options_.in_place.size() == table.parameters().size());
  for (uint32_t id : table.of_server(server)) {
    place_[id] = static_cast<uint32_t>(blocks_.size());
    BlockState& b = blocks_.emplace_back();
    b.id = id;
    b.block = table.block(id);
    b.steps.resize(static_cast<size_t>(rule_->mode().window));
    for (StepSum& sum : b.steps) {
      sum.chunks.resize(b.block.chunks());
      for (BlockChunk& chunk : sum.chunks) chunk.sum = make_sum(rule_->mode(), options_.micro_batches);
    }
    if (!options_.in_place.empty())
      b.in_place = options_.in_place[static_cast<size_t>(b.block.parameter)] + b.block.first;
    moving_ += !b.frozen();
    if (!b.trainable()) continue;
    b.squares_at = norm_chunks_;
    norm_chunks_ += b.block.chunks();
    for (size_t s = 0; s < optimizer.slots(); ++s) b.slots.emplace_back(b.elements() * sizeof(float));
    for (size_t v = optim::kFirstKept; options_.vectors && v < optim::kKeptEnd; ++v)
      b.kept.emplace_back(b.elements() * sizeof(float)).zero();
  }
  if (table.rows().empty()) return;
  DTRAIN_CHECK(lockstep() && rule_->mode().window == 1 && pushes_ == options_.micro_batches && options_.norms.empty(),
               "sparse tables are trained synchronously and without norms");
  rows_ = std::make_unique<RowServer>(table.rows(), server, options_.micro_batches, options_.micro_batch_rows,
                                      optimizer, options_.initial_rows, outbox);
}

void ShardServer::load(uint32_t block, std::span<const float> values, std::span<const std::span<const float>> slots) {
  DTRAIN_CHECK(block < place_.size() && place_[block] != kNotHere, "block {} is not of server {}", block, server_);
  BlockState& b = state(block);
  const size_t bytes = b.elements() * sizeof(float);
  DTRAIN_CHECK(values.size() == b.elements() && (slots.empty() || slots.size() == b.slots.size()));
  if (b.in_place) {
    if (values.data() != b.in_place) std::memcpy(b.in_place, values.data(), bytes);
  } else {
    b.newest = std::make_shared<Buffer>(bytes, options_.memory);
    if (!options_.counts_only) std::memcpy(b.newest->data(), values.data(), bytes);
  }
  b.loaded = true;
  if (options_.counts_only) return;
  if (options_.pulls && b.trainable() && !b.in_place) {
    b.exact = Buffer(bytes);
    std::memcpy(b.exact.data(), values.data(), bytes);
  }
  for (size_t s = 0; s < b.slots.size(); ++s) {
    if (slots.empty()) {
      b.slots[s].zero();
      continue;
    }
    DTRAIN_CHECK(slots[s].size() == b.elements());
    std::memcpy(b.slots[s].data(), slots[s].data(), bytes);
  }
}

void ShardServer::start(int64_t version) {
  for (BlockState& b : blocks_) {
    DTRAIN_CHECK(b.loaded, "block {} has no values", b.id);
    b.version = lockstep() ? version : pushes_until(version);
    b.older.reset();
    b.next.reset();
    b.waiting.clear();
    b.offers.clear();
    b.queue.clear();
    b.pushes.clear();
    b.parked.clear();
    b.parks.clear();
    b.read.clear();
    b.updates.clear();
    b.next_updates.clear();
    for (StepSum& sum : b.steps) clear(b, sum);
    b.applied = 0;
  }
  if (rows_) rows_->start(version);
  waiting_.clear();
  rates_.clear();
  failed_ = false;
  started_ = true;
  step_ = version;
  begin_step();
}

Status ShardServer::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  return std::visit(
      [&](const auto& m) -> Status {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, wire::NodeChunk>) {
          return on(from, m, payload);
        } else if constexpr (is_one_of<M, wire::RowPull, wire::RowPush>) {
          return on_rows(from, message, payload);
        } else if constexpr (is_one_of<M, wire::Offer, wire::Pull, wire::Rates, wire::NormFactor, wire::VectorOrder,
                                       wire::Snapshot>) {
          if (!payload.empty()) return broken(from, "a payload where none belongs");
          return on(from, m);
        } else {
          return broken(from, fmt::format("a shard server takes no message of type {}", static_cast<int>(M::kType)));
        }
      },
      message);
}

Status ShardServer::check_block(wire::Rank from, uint32_t block) const {
  if (block >= place_.size()) return broken(from, fmt::format("there is no block {}", block));
  if (place_[block] == kNotHere)
    return broken(from, fmt::format("block {} is of server {}, not {}", block, table_.block(block).server, server_));
  return {};
}

Status ShardServer::check_node(wire::Rank from, int64_t step, uint32_t block, const Node& node) const {
  DTRAIN_TRY(check_block(from, block));
  if (step < 0) return broken(from, fmt::format("there is no step {}", step));
  if (table_.block(block).frozen()) return broken(from, fmt::format("a gradient of block {}, which is frozen", block));
  const bool single = rule_->mode().single;
  if (single && node.size() != 1) return broken(from, fmt::format("a push of {} micro-batches", node.size()));
  if (lockstep() && !is_node(node, options_.micro_batches))
    return broken(from, fmt::format("[{}, {}) is no node of the tree over {} micro-batches", node.first, node.last,
                                    options_.micro_batches));
  return {};
}

Status ShardServer::check_coordinator(wire::Rank from, const char* what) const {
  if (from == options_.coordinator) return {};
  return broken(from, fmt::format("only the coordinator, task {}, sends {}", options_.coordinator, what));
}

Status ShardServer::on(wire::Rank from, const wire::Offer& m) {
  const Node node{m.first, m.last};
  DTRAIN_TRY(check_node(from, m.step, m.block, node));
  BlockState& b = state(m.block);
  if (early(b, m.step)) {
    ++counters_.ignored;
    return {};
  }
  const OfferKey key{m.step, node, from};
  if (b.waiting.contains(key) || b.offers.contains(key)) return {};
  if (known(b, m.step, node)) {
    ++counters_.duplicates;
    counters_.late += late(b, m.step);
    absorbed(from, m.step, b, node, late(b, m.step));
    return {};
  }
  if (!lockstep() && b.pushes[from] == kMostPushes + rule_->mode().fetch_every)
    return broken(from, fmt::format("more pushes of block {} than a worker can have under way", m.block));
  auto at = b.waiting.emplace(key, BlockOffer{}).first;
  take_waiting(b, at);
  if (lockstep()) return {};
  ++b.pushes[from];
  if (b.waiting.contains(key)) b.queue.push_back(key);
  if (b.queue.size() > 2 * b.waiting.size() + 16)  // mostly of offers that were answered or lost
    std::erase_if(b.queue, [&](const OfferKey& k) { return !b.waiting.contains(k); });
  return {};
}

Status ShardServer::on(wire::Rank from, const wire::NodeChunk& m, ByteSpan payload) {
  const Node node{m.first, m.last};
  DTRAIN_TRY(check_node(from, m.step, m.block, node));
  BlockState& b = state(m.block);
  if (m.chunk >= b.block.chunks()) return broken(from, fmt::format("block {} has no chunk {}", m.block, m.chunk));
  Buffer aligned;
  DTRAIN_TRY_ASSIGN(const ChunkValues values, values_of(from, b, m, payload, aligned));

  BlockOffer* offer = nullptr;
  for (Offers* offers : {&b.offers, &b.waiting})
    if (const auto at = offers->find({m.step, node, from}); at != offers->end()) offer = &at->second;
  const uint32_t bit = 1u << m.chunk;
  const bool asked = offer && (offer->asked & bit);
  if (early(b, m.step) || !(asked || b.block.pushed())) {
    ++counters_.ignored;
    return {};
  }
  const size_t used = admission_.used();
  const size_t first = first_unfinished();
  const bool late = this->late(b, m.step);
  const int64_t version = b.version;
  bool in_reserve = false;
  if (asked) {
    offer->asked &= ~bit;
    offer->taken |= bit;
    in_reserve = offer->in_reserve & bit;
    if (!late && (offer->counted & bit)) --sum_of(b, m.step).chunks[m.chunk].promised;
  }

  bool completed = false;  // of this step's sums the last chunk
  const bool taken = late || sum_of(b, m.step).chunks[m.chunk].sum->covers(node);
  // Without lockstep nothing comes twice: what finds a sum complete found one gradient that waits for the first rate.
  const bool dropped = lockstep() ? late : taken;
  if (taken) {
    ++counters_.duplicates;
    counters_.late += dropped;
  } else {
    counters_.bytes_taken += payload.size();
    add(b, m.step, m.chunk, from, node, values, in_reserve);
    completed = this->late(b, m.step) || sum_of(b, m.step).roots == b.block.chunks();
  }
  account(b, m.step, m.chunk);
  if (!asked) absorbed(from, m.step, b, node, dropped);
  if (completed || !lockstep())
    settle_all(b);
  else
    settle_around(b, m.step, m.chunk, node);
  if (b.waiting.empty()) {
    waiting_.erase(place_[b.id]);
    b.queue.clear();
  }
  if (waiting_.empty()) return {};
  if (!lockstep()) {
    if (b.version != version) take_queued(b);
    return {};
  }
  if (!completed && !dropped) take_joining(b, m.step, m.chunk, node);
  if (first_unfinished() != first || place_[b.id] == first) take_next();
  if (admission_.used() < used) take_while_room();
  return {};
}

// Plain values are aligned in `aligned` where they are not.
Result<ChunkValues> ShardServer::values_of(wire::Rank from, const BlockState& b, const wire::NodeChunk& m,
                                           ByteSpan payload, Buffer& aligned) const {
  const size_t n = b.chunk_elements(m.chunk), bytes = n * sizeof(float);
  if (m.codec != 0) {
    const compress::Codec* const codec = compress::find_codec(m.codec);
    if (!codec) return broken(from, fmt::format("there is no codec {}", m.codec));
    if (!b.trainable())
      return broken(from, fmt::format("an encoded chunk of block {}, whose values are sums", m.block));
    if (!codec->valid(payload, n))
      return broken(from, fmt::format("{} bytes are no chunk {} of block {} ({} elements) in codec {}", payload.size(),
                                      m.chunk, m.block, n, codec->name()));
    return ChunkValues(*codec, payload, n);
  }
  if (payload.size() != bytes)
    return broken(from,
                  fmt::format("chunk {} of block {} has {} bytes, not {}", m.chunk, m.block, bytes, payload.size()));
  if (reinterpret_cast<uintptr_t>(payload.data()) % alignof(float) != 0) {
    aligned = Buffer(bytes);
    std::memcpy(aligned.data(), payload.data(), bytes);
    payload = {aligned.data(), bytes};
  }
  return ChunkValues(std::span(reinterpret_cast<const float*>(payload.data()), n));
}

// Of a step that cannot have begun.
bool ShardServer::early(const BlockState& b, int64_t step) const {
  if (!started_ || rule_->fate(b.version, step) == consistency::Fate::kEarly) return true;
  return lockstep() && ((step - step_) % stride() != 0 || rule_->fate(step_, step) == consistency::Fate::kEarly);
}

Status ShardServer::on(wire::Rank from, const wire::Pull& m) {
  DTRAIN_TRY(check_block(from, m.block));
  if (m.version < 0) return broken(from, fmt::format("there is no version {}", m.version));
  if (!started_) {
    ++counters_.ignored;
    return {};
  }
  BlockState& b = state(m.block);
  if (b.frozen()) {
    send_block(from, b, m.version, -1);
    return {};
  }
  const bool newest = rule_->mode().newest;
  const bool torn = b.in_place && b.applied > 0;
  if (m.version > b.version || (newest && torn)) {
    if (b.parks.size() <= from) b.parks.resize(from + 1);
    if (b.parks[from]) {
      *std::find_if(b.parked.begin(), b.parked.end(), [&](const ParkedPull& p) { return p.from == from; }) = {
          from, m.version, m.held};
    } else {
      b.parked.push_back({from, m.version, m.held});
      b.parks[from] = true;
    }
    return {};
  }
  if (newest) {
    if (from < b.parks.size() && b.parks[from]) {
      std::erase_if(b.parked, [&](const ParkedPull& p) { return p.from == from; });
      b.parks[from] = false;
    }
    send_block(from, b, b.version, m.held);
  } else if ((m.version == b.version && !torn) || (m.version + stride() == b.version && b.older)) {
    send_block(from, b, m.version, m.held);
  } else {
    outbox_.send(from, wire::Gone{m.block, m.version, b.version});
  }
  return {};
}

Status ShardServer::on_rows(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  if (!rows_) return broken(from, "there are no sparse tables");
  const auto* const push = std::get_if<wire::RowPush>(&message);
  if (!started_ || (push && push->step > step_)) {
    ++counters_.ignored;
    return {};
  }
  const Status done = push ? rows_->on(from, *push, payload) : rows_->on(from, std::get<wire::RowPull>(message));
  if (!done) return broken(from, done.error().message);
  if (!push) return {};
  apply_rows();
  finish_steps();
  return {};
}

Status ShardServer::on(wire::Rank from, const wire::Rates& m) {
  DTRAIN_TRY(check_coordinator(from, "Rates"));
  if (m.from < 0) return broken(from, fmt::format("there is no step {}", m.from));
  for (double rate : m.rates)
    if (!std::isfinite(rate)) return broken(from, "a learning rate is not finite");
  if (!started_) {
    ++counters_.ignored;
    return {};
  }
  for (size_t i = 0; i < m.rates.size(); ++i) {
    const int64_t step = m.from + static_cast<int64_t>(i) * stride();
    if (step >= step_ || !lockstep()) rates_[step] = m.rates[i];
  }
  if (!lockstep() && rates_.size() > 1) rates_.erase(rates_.begin(), std::prev(rates_.end()));  // the newest is for all
  measure_all();
  apply_ready();
  finish_steps();
  take_all();  // what was ahead may be due now
  return {};
}

Status ShardServer::on(wire::Rank from, const wire::Snapshot& m) {
  DTRAIN_TRY(check_coordinator(from, "Snapshot"));
  const bool moved = std::any_of(blocks_.begin(), blocks_.end(), [&](const BlockState& b) {
    return !b.frozen() && ((lockstep() && b.version != m.version) || b.applied > 0);
  });
  const bool rows_moved = rows_ && rows_->version() != m.version;
  if (!started_ || moved || rows_moved || (lockstep() && step_ != m.version)) {
    wire::SnapshotDone answer;
    answer.version = m.version;
    answer.error = fmt::format("server {} does not stand at version {} (but at {})", server_, m.version, step_);
    outbox_.send(from, std::move(answer));
    return {};
  }
  ShardState copy;
  copy.version = m.step >= 0 ? m.step : m.version;
  for (const BlockState& b : blocks_) {
    ShardState::BlockCopy& c = copy.blocks.emplace_back();
    c.block = b.id;
    const size_t bytes = b.elements() * sizeof(float);
    if (b.in_place) {
      auto values = std::make_shared<Buffer>(bytes);
      std::memcpy(values->data(), b.in_place, bytes);
      c.values = std::move(values);
    } else {
      c.values = b.newest;
    }
    for (const Buffer& slot : b.slots) std::memcpy(c.slots.emplace_back(bytes).data(), slot.data(), bytes);
  }
  if (rows_) copy.rows = rows_->store().copy();
  snapshots_.snapshot(m, std::move(copy));
  return {};
}

std::span<const float> ShardServer::values(uint32_t block) const {
  DTRAIN_CHECK(block < place_.size() && place_[block] != kNotHere, "block {} is not of server {}", block, server_);
  const BlockState& b = state(block);
  return {b.values(), b.elements()};
}

std::shared_ptr<const Buffer> ShardServer::values_at(uint32_t block, int64_t version) const {
  const BlockState& b = state(block);
  if (b.frozen() || version == b.version) return b.newest;
  return version + stride() == b.version ? b.older : nullptr;
}

}  // namespace dtrain::ps
