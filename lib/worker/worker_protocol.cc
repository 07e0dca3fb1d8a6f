#include "worker/worker_protocol.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dtrain::worker {
namespace {

uint32_t all_chunks(const ps::Block& block) { return (uint32_t{1} << block.chunks()) - 1; }

}  // namespace

WorkerProtocol::WorkerProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox)
    : table_(table), setup_(std::move(setup)), outbox_(outbox), held_(table.blocks().size()) {
  DTRAIN_CHECK(setup_.server_ranks.size() == table.servers());
  DTRAIN_CHECK(setup_.memory.size() == table.parameters().size());
  DTRAIN_CHECK(setup_.micro_batches > 0);
}

Status WorkerProtocol::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  if (const auto* m = std::get_if<wire::Assign>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::Take>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::Absorbed>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::ParameterChunk>(&message)) return on(from, *m, payload);
  if (const auto* m = std::get_if<wire::Gone>(&message)) return on(from, *m);
  return fail(ExitCode::kBug, fmt::format("task {} sent a worker a message that is not for workers", from));
}

uint32_t WorkerProtocol::micro_batches(wire::StepKind kind) const {
  return kind == wire::StepKind::kTrain ? setup_.micro_batches : setup_.eval_micro_batches;
}

std::vector<ps::Node> WorkerProtocol::remaining(const wire::Assign& assign, int64_t step) const {
  const bool covered =
      assign.kind == wire::StepKind::kTrain ? assign.from <= step && step < assign.until : assign.from == step;
  if (!covered) return {};
  const auto done = done_.find({step, assign.kind});
  return ps::remaining_nodes(assign.first, assign.last, done == done_.end() ? std::vector<ps::Node>{} : done->second,
                             micro_batches(assign.kind));
}

// --- from the coordinator

Status WorkerProtocol::on(wire::Rank from, const wire::Assign& m) {
  const bool train = m.kind == wire::StepKind::kTrain, eval = m.kind == wire::StepKind::kEval;
  if (from != setup_.coordinator || !(train || eval) || m.from < 0 || m.until < m.from || m.first > m.last ||
      m.last > micro_batches(m.kind)) {
    return fail(ExitCode::kBug, fmt::format("task {} assigned micro-batches {}-{} of steps {}-{}, which cannot be",
                                            from, m.first, m.last, m.from, m.until));
  }
  if (assign_ && m.generation < assign_->generation) return {};

  floor_ = std::max(floor_, m.from);
  // On its way to version s+1 it may be needed for step s again; where it is not, it need not turn back.
  const bool stay = step_ > floor_ && remaining(m, floor_).empty();
  assign_ = m;
  move(m.kind, stay ? step_ : floor_);
  advance();
  return {};
}

void WorkerProtocol::move(wire::StepKind kind, int64_t step) {
  if (kind == kind_ && step == step_) return;
  const bool other_version = step != step_;
  kind_ = kind;
  step_ = step;
  done_.erase(done_.begin(), done_.lower_bound({floor_, wire::StepKind{}}));
  if (current_) current_cancelled_ = true;
  if (other_version) {
    if (current_) {
      want_due_ = true;
    } else {
      want();
    }
  }
}

void WorkerProtocol::want() {
  want_due_ = false;
  wanted_ = step_;
  for (uint32_t id = 0; id < held_.size(); ++id) {
    Held& held = held_[id];
    if (held.version == step_ || (held.version >= 0 && table_.block(id).frozen())) continue;
    if (held.missing == 0) {
      held.previous = held.version;
    } else if (held.written) {
      held.previous = -1;
    }
    incomplete_ -= held.missing != 0;
    held.version = step_;
    held.written = false;
    if (held.previous == step_) {
      held.missing = 0;
      continue;
    }
    held.missing = all_chunks(table_.block(id));
    ++incomplete_;
    outbox_.send(setup_.server_ranks[table_.block(id).server], wire::Pull{.block = id, .version = step_});
  }
  if (incomplete_ == 0) floor_ = std::max(floor_, step_);
}

void WorkerProtocol::advance() {
  // An empty share is done when the version is there: so that nobody runs ahead of what is committed.
  while (assign_ && kind_ == wire::StepKind::kTrain && !current_ && !want_due_ && incomplete_ == 0 &&
         assign_->from <= step_ && step_ < assign_->until && remaining(*assign_, step_).empty()) {
    move(kind_, step_ + 1);
  }
}

// --- from the servers

Status WorkerProtocol::check_block(wire::Rank from, uint32_t block, const char* message) const {
  if (block >= table_.blocks().size() || setup_.server_ranks[table_.block(block).server] != from) {
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} for block {}, which it does not hold", from, message, block));
  }
  return {};
}

Status WorkerProtocol::on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload) {
  DTRAIN_TRY(check_block(from, m.block, "parameters"));
  const ps::Block& block = table_.block(m.block);
  if (m.chunk >= block.chunks() ||
      payload.size() != static_cast<size_t>(block.chunk_elements(m.chunk)) * sizeof(float)) {
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} bytes as chunk {} of block {} ({})", from, payload.size(), m.chunk,
                            m.block, table_.parameters()[static_cast<size_t>(block.parameter)].name));
  }
  Held& held = held_[m.block];
  const uint32_t bit = uint32_t{1} << m.chunk;
  // Not wanted (any more), or there already: memory may be being read.
  if (m.version != held.version || !(held.missing & bit)) return {};
  float* to = setup_.memory[static_cast<size_t>(block.parameter)] + block.first + m.chunk * ps::kChunkElements;
  if (static_cast<const void*>(to) != static_cast<const void*>(payload.data())) {
    std::memcpy(to, payload.data(), payload.size());
  }
  held.written = true;
  held.missing &= ~bit;
  if (held.missing == 0 && --incomplete_ == 0) {
    floor_ = std::max(floor_, wanted_);
    advance();
  }
  return {};
}

Status WorkerProtocol::on(wire::Rank from, const wire::Gone& m) {
  DTRAIN_TRY(check_block(from, m.block, "gone"));
  const Held& held = held_[m.block];
  if (m.version != held.version || held.missing == 0) return {};
  if (m.newest <= m.version) {
    return fail(ExitCode::kBug, fmt::format("task {} says that version {} of block {} is gone, but stands at {}", from,
                                            m.version, m.block, m.newest));
  }
  // A block at version s proves that all blocks had version s-1: nothing earlier is needed from anybody.
  floor_ = std::max(floor_, m.newest - 1);
  if (step_ < floor_) move(kind_, floor_);
  advance();
  return {};
}

Status WorkerProtocol::on(wire::Rank from, const wire::Take& m) {
  DTRAIN_TRY(check_block(from, m.block, "a take"));
  if (m.chunks & ~all_chunks(table_.block(m.block))) {
    return fail(ExitCode::kBug, fmt::format("task {} takes chunks of block {} that do not exist", from, m.block));
  }
  const auto offer = offers_.find({m.step, {m.first, m.last}, m.block});
  if (offer != offers_.end()) send_chunks(offer->first, offer->second, m.chunks);
  return {};
}

Status WorkerProtocol::on(wire::Rank from, const wire::Absorbed& m) {
  DTRAIN_TRY(check_block(from, m.block, "absorbed"));
  offers_.erase({m.step, {m.first, m.last}, m.block});
  return {};
}

// --- the compute side

std::optional<Work> WorkerProtocol::next_work() const {
  if (!assign_ || current_ || want_due_) return std::nullopt;
  const auto nodes = remaining(*assign_, step_);
  if (nodes.empty()) return std::nullopt;
  return Work{kind_, step_, nodes.front()};
}

bool WorkerProtocol::parameter_ready(ParameterIndex parameter, int64_t version) const {
  for (const uint32_t id : table_.of_parameter(parameter)) {
    const bool right = table_.block(id).frozen() ? held_[id].version >= 0 : held_[id].version == version;
    if (!right || held_[id].missing != 0) return false;
  }
  return true;
}

bool WorkerProtocol::cancelled(const Work& work) const { return !current_ || *current_ != work || current_cancelled_; }

void WorkerProtocol::started(const Work& work) {
  DTRAIN_CHECK(!current_, "one work at a time");
  DTRAIN_CHECK(work.step == step_ && work.kind == kind_, "work of step {} is started at step {}", work.step, step_);
  current_ = work;
  current_cancelled_ = false;
}

void WorkerProtocol::metrics(const Work& work, const Metrics& metrics) {
  if (cancelled(work)) return;
  DTRAIN_CHECK(incomplete_ == 0, "step {} was computed without all parameters", work.step);
  outbox_.send(
      setup_.coordinator,
      wire::MetricNode{
          .kind = work.kind, .step = work.step, .first = work.node.first, .last = work.node.last, .metrics = metrics});
}

void WorkerProtocol::gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) {
  if (cancelled(work)) return;
  DTRAIN_CHECK(work.kind == wire::StepKind::kTrain && incomplete_ == 0, "step {} has a gradient without its parameters",
               work.step);
  int64_t covered = 0;
  for (const uint32_t id : table_.of_parameter(sum.parameter)) {
    const ps::Block& block = table_.block(id);
    if (block.first < sum.first || block.first + block.elements > sum.first + sum.elements) continue;
    covered += block.elements;
    const float* values = sum.values + (block.first - sum.first);
    const auto [at, fresh] = offers_.try_emplace({work.step, work.node, id}, Offered{values, owner});
    DTRAIN_CHECK(fresh, "block {} of step {} is offered twice", id, work.step);
    if (block.pushed()) {
      send_chunks(at->first, at->second, all_chunks(block));
    } else {
      outbox_.send(setup_.server_ranks[block.server],
                   wire::Offer{.step = work.step, .block = id, .first = work.node.first, .last = work.node.last});
    }
  }
  DTRAIN_CHECK(covered == sum.elements, "a sum of {} elements covers blocks of {}", sum.elements, covered);
}

void WorkerProtocol::finished(const Work& work) {
  DTRAIN_CHECK(current_ && *current_ == work, "work of step {} is not in progress", work.step);
  if (!current_cancelled_) done_[{work.step, work.kind}].push_back(work.node);
  current_.reset();
  current_cancelled_ = false;
  if (want_due_) want();
  advance();
}

size_t WorkerProtocol::unanswered(const Work& work) const {
  const auto first = offers_.lower_bound({work.step, work.node, 0});
  const auto last = offers_.upper_bound({work.step, work.node, UINT32_MAX});
  return static_cast<size_t>(std::distance(first, last));
}

void WorkerProtocol::send_chunks(const OfferKey& key, const Offered& offered, uint32_t chunks) {
  const ps::Block& block = table_.block(key.block);
  for (uint32_t chunk = 0; chunk < block.chunks(); ++chunk) {
    if (!(chunks >> chunk & 1)) continue;
    const float* values = offered.values + chunk * ps::kChunkElements;
    const auto* bytes = reinterpret_cast<const std::byte*>(values);
    outbox_.send(
        setup_.server_ranks[block.server],
        wire::NodeChunk{
            .step = key.step, .block = key.block, .first = key.node.first, .last = key.node.last, .chunk = chunk},
        {{bytes, static_cast<size_t>(block.chunk_elements(chunk)) * sizeof(float)}, offered.owner});
  }
}

}  // namespace dtrain::worker
