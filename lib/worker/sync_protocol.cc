#include "worker/sync_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "consistency/registry.h"

namespace dtrain::worker {

SyncProtocol::SyncProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox)
    : table_(table),
      setup_(std::move(setup)),
      rule_(setup_.rule ? setup_.rule : consistency::synchronous()),
      outbox_(outbox),
      offers_(table, setup_.server_ranks, outbox, setup_.compression),
      rows_(table.rows(), setup_.server_ranks, outbox),
      held_(table.blocks().size()) {
  DTRAIN_CHECK(setup_.server_ranks.size() == table.servers());
  DTRAIN_CHECK(setup_.memory.size() == table.parameters().size());
  DTRAIN_CHECK(setup_.micro_batches > 0);
}

Status SyncProtocol::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  if (const auto* m = std::get_if<wire::Assign>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::WorkerRates>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::Take>(&message)) return offers_.on(from, *m);
  if (const auto* m = std::get_if<wire::Absorbed>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::ParameterChunk>(&message)) return on(from, *m, payload);
  if (const auto* m = std::get_if<wire::Gone>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::Rows>(&message)) return rows_.on(from, *m, payload);
  if (const auto* m = std::get_if<wire::RowsGone>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::RowsTaken>(&message)) return on(from, *m);
  return fail(ExitCode::kBug, fmt::format("task {} sent a worker a message that is not for workers", from));
}

uint32_t SyncProtocol::micro_batches(wire::StepKind kind) const {
  return kind == wire::StepKind::kTrain ? setup_.micro_batches : setup_.eval_micro_batches;
}

std::vector<ps::Node> SyncProtocol::remaining(const wire::Assign& assign, int64_t step) const {
  const bool covered =
      assign.kind == wire::StepKind::kTrain ? assign.from <= step && step < assign.until : assign.from == step;
  if (!covered) return {};
  const auto at = done_.find({step, assign.kind});
  const std::vector<ps::Node> none;
  const std::vector<ps::Node>& done = at == done_.end() ? none : at->second;
  const uint32_t n = micro_batches(assign.kind);
  std::vector<ps::Node> own = ps::remaining_nodes(assign.first, assign.last, done, n);
  return own.empty() ? ps::remaining_nodes(assign.also_first, assign.also_last, done, n) : own;
}

// --- from the coordinator

Status SyncProtocol::on(wire::Rank from, const wire::Assign& m) {
  const bool train = m.kind == wire::StepKind::kTrain, eval = m.kind == wire::StepKind::kEval;
  if (from != setup_.coordinator || !(train || eval) || m.from < 0 || m.until < m.from || m.first > m.last ||
      m.last > micro_batches(m.kind) || m.also_first > m.also_last || m.also_last > micro_batches(m.kind)) {
    return fail(ExitCode::kBug, fmt::format("task {} assigned micro-batches {}-{} of steps {}-{}, which cannot be",
                                            from, m.first, m.last, m.from, m.until));
  }
  if (assign_ && m.generation < assign_->generation) return {};

  floor_ = std::max(floor_, m.from);
  // On its way ahead it may be needed for an earlier step again; where it is not, it need not turn back.
  int64_t to = floor_;
  while (to < step_ && remaining(m, to).empty()) to += mode().stride;
  assign_ = m;
  move(m.kind, to);
  advance();
  return {};
}

Status SyncProtocol::on(wire::Rank from, const wire::WorkerRates& m) {
  if (from != setup_.coordinator) return fail(ExitCode::kBug, fmt::format("task {} sent learning rates", from));
  return rates_.add(m, floor_);
}

void SyncProtocol::move(wire::StepKind kind, int64_t step) {
  if (kind == kind_ && step == step_) return;
  const bool other_version = step != step_ || mode().newest;
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

void SyncProtocol::want() {
  want_due_ = false;
  ahead_ = false;
  incomplete_ = 0;
  for (uint32_t id = 0; id < held_.size(); ++id) {
    want(id, step_);
    incomplete_ += held_[id].missing != 0;
  }
  if (incomplete_ == 0) complete();
}

void SyncProtocol::want(uint32_t id, int64_t step) {
  Held& held = held_[id];
  if (!setup_.memory[static_cast<size_t>(table_.block(id).parameter)]) return;
  held.wanted = step;
  if (held.version == step || (held.version >= 0 && table_.block(id).frozen())) return;
  if (held.missing == 0) {
    held.previous = held.version;
  } else if (held.written) {
    held.previous = -1;
  }
  held.version = mode().newest && !table_.block(id).frozen() ? -1 : step;
  held.written = false;
  if (held.previous == step) {
    held.version = step;
    held.missing = 0;
    return;
  }
  held.missing = table_.block(id).all_chunks();
  pull(id, step);
}

void SyncProtocol::pull(uint32_t id, int64_t least) {
  outbox_.send(setup_.server_ranks[table_.block(id).server],
               wire::Pull{.block = id, .version = least, .held = held_[id].previous});
}

// What is evaluated is a version, not some.
void SyncProtocol::hurry() {
  if (!mode().newest || kind_ == wire::StepKind::kEval || rule_->oldest(step_) == step_) return;
  for (uint32_t id = 0; id < held_.size(); ++id)
    if (held_[id].missing != 0 && held_[id].version < 0) pull(id, rule_->oldest(step_));
}

void SyncProtocol::complete() {
  int64_t least = step_;
  for (uint32_t id = 0; id < held_.size(); ++id)
    if (held_[id].wanted >= 0 && !table_.block(id).frozen()) least = std::min(least, held_[id].version);
  // Blocks alone do not say that all rows have this version too, but that they had the one before.
  if (!table_.rows().empty()) least -= mode().stride;
  floor_ = std::max(floor_, least);
}

void SyncProtocol::advance() {
  // An empty share is done when the version is there: so that nobody runs ahead of what is committed.
  while (assign_ && kind_ == wire::StepKind::kTrain && !current_ && !want_due_ && incomplete_ == 0 &&
         assign_->from <= step_ && step_ < assign_->until && remaining(*assign_, step_).empty()) {
    move(kind_, step_ + mode().stride);
  }
  // There is more to be done of this step than was known when blocks were let go.
  if (ahead_ && !current_ && !want_due_ && assign_ && !remaining(*assign_, step_).empty()) want();
}

// --- from the servers

Status SyncProtocol::check_block(wire::Rank from, uint32_t block, const char* message) const {
  if (block >= table_.blocks().size() || setup_.server_ranks[table_.block(block).server] != from) {
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} for block {}, which it does not hold", from, message, block));
  }
  return {};
}

Status SyncProtocol::on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload) {
  DTRAIN_TRY(check_block(from, m.block, "parameters"));
  const ps::Block& block = table_.block(m.block);
  if (m.chunk >= block.chunks() ||
      (m.base < 0 && payload.size() != static_cast<size_t>(block.chunk_elements(m.chunk)) * sizeof(float))) {
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} bytes as chunk {} of block {} ({})", from, payload.size(), m.chunk,
                            m.block, table_.parameters()[static_cast<size_t>(block.parameter)].name));
  }
  Held& held = held_[m.block];
  if (mode().newest && !block.frozen()) {
    // An answer to an earlier pull may come first: the newest counts, as long as some of it is wanted.
    const int64_t least = kind_ == wire::StepKind::kEval ? held.wanted : rule_->oldest(held.wanted);
    if (held.missing != 0 && m.version >= least && m.version > held.version) {
      held.version = m.version;
      held.missing = block.all_chunks();
    }
  }
  const uint32_t bit = uint32_t{1} << m.chunk;
  // Not wanted (any more), or there already: memory may be being read.
  if (m.version != held.version || !(held.missing & bit)) return {};
  float* to = setup_.memory[static_cast<size_t>(block.parameter)] + block.first + m.chunk * ps::kChunkElements;
  const size_t elements = static_cast<size_t>(block.chunk_elements(m.chunk));
  if (m.base >= 0) {
    const compress::Codec* const codec = compress::find_codec(m.codec);
    if (!codec || !codec->valid(payload, elements))
      return fail(ExitCode::kBug, fmt::format("task {} sent {} bytes, which codec {} does not know, as an update of "
                                              "chunk {} of block {}",
                                              from, payload.size(), m.codec, m.chunk, m.block));
    // What it changes is here as long as nothing else came since it was asked for.
    if (held.chunks[m.chunk] != m.base) return {};
    codec->decode_add(payload, {to, elements});
  } else if (static_cast<const void*>(to) != static_cast<const void*>(payload.data())) {
    std::memcpy(to, payload.data(), payload.size());
  }
  held.chunks[m.chunk] = m.version;
  held.written = true;
  held.missing &= ~bit;
  if (held.missing == 0 && !want_due_ && held.wanted == step_ && --incomplete_ == 0) {
    complete();
    advance();
  }
  return {};
}

Status SyncProtocol::on(wire::Rank from, const wire::Gone& m) {
  DTRAIN_TRY(check_block(from, m.block, "gone"));
  const Held& held = held_[m.block];
  if (m.version != held.version || held.missing == 0) return {};
  if (m.newest <= m.version) {
    return fail(ExitCode::kBug, fmt::format("task {} says that version {} of block {} is gone, but stands at {}", from,
                                            m.version, m.block, m.newest));
  }
  heard_of(m.newest);
  return {};
}

Status SyncProtocol::on(wire::Rank from, const wire::RowsGone& m) {
  DTRAIN_TRY_ASSIGN(const std::optional<int64_t> newest, rows_.on(from, m));
  if (newest) heard_of(*newest);
  return {};
}

// A block at version s proves that all blocks had the version before: nothing earlier is needed from anybody. With
// backup workers nothing of that one either, unless an assignment says so (somebody else was lost with what he had).
void SyncProtocol::heard_of(int64_t newest) {
  floor_ = std::max(floor_, newest - mode().stride);
  const int64_t to = mode().needed > 0 ? newest : floor_;
  if (step_ < to) move(kind_, to);
  advance();
}

Status SyncProtocol::on(wire::Rank from, const wire::Absorbed& m) {
  DTRAIN_TRY_ASSIGN(const std::optional<Work> work, offers_.on(from, m));
  answered(work);
  return {};
}

Status SyncProtocol::on(wire::Rank from, const wire::RowsTaken& m) {
  DTRAIN_TRY_ASSIGN(const std::optional<Work> work, rows_.on(from, m));
  answered(work);
  return {};
}

void SyncProtocol::answered(const std::optional<Work>& work) {
  if (work && unanswered(*work) == 0 && answers_due_.erase(*work) > 0) say_done(*work);
}

void SyncProtocol::say_done(const Work& work) {
  outbox_.send(setup_.coordinator, wire::WorkDone{.step = work.step, .first = work.node.first, .last = work.node.last});
}

// --- the compute side

std::optional<Work> SyncProtocol::next_work() const {
  if (!assign_ || current_ || want_due_) return std::nullopt;
  const auto nodes = remaining(*assign_, step_);
  if (nodes.empty()) return std::nullopt;
  const bool own_steps = mode().stride > 1 && kind_ == wire::StepKind::kTrain;
  if (own_steps && !rates_.has(step_, step_ + mode().stride)) return std::nullopt;
  ps::Node node = nodes.front();
  if (mode().single && kind_ == wire::StepKind::kTrain) node.last = node.first + 1;
  return Work{kind_, step_, node};
}

bool SyncProtocol::parameter_ready(ParameterIndex parameter, int64_t step) const {
  for (const uint32_t id : table_.of_parameter(parameter)) {
    const bool right = table_.block(id).frozen() ? held_[id].version >= 0 : held_[id].wanted == step;
    if (!right || held_[id].missing != 0) return false;
  }
  return true;
}

bool SyncProtocol::cancelled(const Work& work) const { return !current_ || *current_ != work || current_cancelled_; }

void SyncProtocol::started(const Work& work) {
  DTRAIN_CHECK(!current_, "one work at a time");
  DTRAIN_CHECK(work.step == step_ && work.kind == kind_, "work of step {} is started at step {}", work.step, step_);
  current_ = work;
  current_cancelled_ = false;
  const bool moves_on = work.kind == wire::StepKind::kTrain && !mode().newest && mode().needed == 0;
  lets_go_ = moves_on && remaining(*assign_, step_) == std::vector{work.node};
}

void SyncProtocol::metrics(const Work& work, const Metrics& metrics) {
  if (cancelled(work)) return;
  DTRAIN_CHECK(incomplete_ == 0, "step {} was computed without all parameters", work.step);
  int64_t oldest = work.step;
  for (uint32_t id = 0; mode().newest && id < held_.size(); ++id)
    if (!table_.block(id).frozen()) oldest = std::min(oldest, held_[id].version);
  outbox_.send(setup_.coordinator, wire::MetricNode{.kind = work.kind,
                                                    .step = work.step,
                                                    .first = work.node.first,
                                                    .last = work.node.last,
                                                    .metrics = metrics,
                                                    .lag = static_cast<uint32_t>(work.step - oldest)});
}

void SyncProtocol::gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) {
  if (cancelled(work)) return;
  DTRAIN_CHECK(work.kind == wire::StepKind::kTrain && incomplete_ == 0, "step {} has a gradient without its parameters",
               work.step);
  int64_t covered = 0;
  for (const uint32_t id : table_.of_parameter(sum.parameter)) {
    const ps::Block& block = table_.block(id);
    if (block.first < sum.first || block.first + block.elements > sum.first + sum.elements) continue;
    covered += block.elements;
    offers_.offer(work, work.step, work.node, id, sum.values + (block.first - sum.first), owner);
    if (!lets_go_) continue;
    ahead_ = true;
    want(id, step_ + mode().stride);
  }
  DTRAIN_CHECK(covered == sum.elements, "a sum of {} elements covers blocks of {}", sum.elements, covered);
}

void SyncProtocol::pull_rows(const Work& work, std::span<const uint64_t> rows, std::span<float* const> into) {
  DTRAIN_CHECK(current_ && *current_ == work, "work of step {} is not in progress", work.step);
  rows_.pull(work.step, rows, into);
}

void SyncProtocol::push_rows(const Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                             std::span<const float* const> gradients) {
  if (cancelled(work)) return;
  DTRAIN_CHECK(work.kind == wire::StepKind::kTrain && incomplete_ == 0 && rows_.arrived(),
               "step {} has a gradient without its parameters", work.step);
  rows_.push(work, micro_batch, rows, gradients);
}

void SyncProtocol::finished(const Work& work) {
  rows_.forget();
  DTRAIN_CHECK(current_ && *current_ == work, "work of step {} is not in progress", work.step);
  if (!current_cancelled_) {
    done_[{work.step, work.kind}].push_back(work.node);
    if (unanswered(work) > 0) {
      answers_due_.insert(work);
    } else if (work.kind == wire::StepKind::kTrain) {
      say_done(work);
    }
  }
  current_.reset();
  current_cancelled_ = false;
  if (want_due_) want();
  advance();
}

}  // namespace dtrain::worker
