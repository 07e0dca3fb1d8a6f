#include "worker/async_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dtrain::worker {

AsyncProtocol::AsyncProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox)
    : table_(table),
      setup_(std::move(setup)),
      outbox_(outbox),
      offers_(table, setup_.server_ranks, outbox, setup_.compression),
      held_(table.blocks().size()) {
  DTRAIN_CHECK(setup_.rule && !setup_.rule->mode().lockstep && setup_.micro_batches > 0);
  DTRAIN_CHECK(setup_.memory.size() == table.parameters().size());
}

Status AsyncProtocol::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  if (const auto* m = std::get_if<wire::Assign>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::WorkerRates>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::Take>(&message)) return offers_.on(from, *m);
  if (const auto* m = std::get_if<wire::Absorbed>(&message)) return on(from, *m);
  if (const auto* m = std::get_if<wire::ParameterChunk>(&message)) return on(from, *m, payload);
  return fail(ExitCode::kBug, fmt::format("task {} sent a worker a message that is not for workers", from));
}

uint32_t AsyncProtocol::number(const Work& work) const {
  return static_cast<uint32_t>(work.step * setup_.micro_batches + work.node.first);
}

int64_t AsyncProtocol::step() const {
  if (current_) return current_->step;
  if (!evaluations_.empty()) return evaluations_.front().step;
  return leases_.empty() ? -1 : leases_.front().first / setup_.micro_batches;
}

// Leases of a lost worker are handed on: a later one may be of an earlier step.
int64_t AsyncProtocol::first_step() const {
  int64_t first = step();
  for (const Leased& lease : leases_) first = std::min(first, lease.first / setup_.micro_batches);
  return first;
}

// --- messages

// Of training: micro-batches [from, until) of the run. Of an evaluation: as in synchronous training.
Status AsyncProtocol::on(wire::Rank from, const wire::Assign& m) {
  const bool train = m.kind == wire::StepKind::kTrain;
  const bool good = train ? m.from >= 0 && m.from < m.until
                          : m.kind == wire::StepKind::kEval && m.from >= 0 && m.first <= m.last &&
                                m.last <= setup_.eval_micro_batches;
  if (from != setup_.coordinator || !good)
    return fail(ExitCode::kBug, fmt::format("task {} assigned {} to {} (micro-batches {}-{}), which cannot be", from,
                                            m.from, m.until, m.first, m.last));
  if (train) {
    leases_.push_back({m.from, m.until});
  } else {
    // Again when somebody is lost: what is done of it is done once more, and dropped.
    evaluations_.clear();
    for (const ps::Node& node : ps::maximal_nodes(m.first, m.last, setup_.eval_micro_batches))
      evaluations_.push_back({wire::StepKind::kEval, m.from, node});
    if (!current_) fetched_ = false;
  }
  fetch_if_due();
  return {};
}

Status AsyncProtocol::on(wire::Rank from, const wire::WorkerRates& m) {
  if (from != setup_.coordinator) return fail(ExitCode::kBug, fmt::format("task {} sent learning rates", from));
  return rates_.add(m, first_step());
}

void AsyncProtocol::fetch_if_due() {
  if (current_ || fetched_ || (leases_.empty() && evaluations_.empty())) return;
  // Between fetches it goes on with its own copy; what is evaluated is the servers'. What is fetched has its own pushes
  // in it.
  if (evaluations_.empty() && since_fetch_ != 0 && since_fetch_ < setup_.rule->mode().fetch_every)
    fetched_ = true;
  else if (pushes_.empty())
    fetch();
}

void AsyncProtocol::fetch() {
  fetched_ = true;
  since_fetch_ = 0;
  for (uint32_t id = 0; id < held_.size(); ++id) {
    Held& held = held_[id];
    const ps::Block& block = table_.block(id);
    if (held.version >= 0 && block.frozen()) continue;
    held.version = -1;
    held.missing = block.all_chunks();
    outbox_.send(setup_.server_ranks[block.server], wire::Pull{.block = id, .version = 0});
  }
}

Status AsyncProtocol::on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload) {
  if (m.block >= table_.blocks().size() || setup_.server_ranks[table_.block(m.block).server] != from)
    return fail(ExitCode::kBug,
                fmt::format("task {} sent parameters for block {}, which it does not hold", from, m.block));
  const ps::Block& block = table_.block(m.block);
  if (m.chunk >= block.chunks() || payload.size() != static_cast<size_t>(block.chunk_elements(m.chunk)) * sizeof(float))
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} bytes as chunk {} of block {}", from, payload.size(), m.chunk, m.block));
  Held& held = held_[m.block];
  const uint32_t bit = uint32_t{1} << m.chunk;
  // The answer to an earlier fetch may come first: the newest counts, as long as some of it is wanted.
  if (held.missing != 0 && m.version > held.version) {
    held.version = m.version;
    held.missing = block.all_chunks();
  }
  if (m.version != held.version || !(held.missing & bit)) return {};
  float* to = setup_.memory[static_cast<size_t>(block.parameter)] + block.first + m.chunk * ps::kChunkElements;
  if (static_cast<const void*>(to) != static_cast<const void*>(payload.data()))
    std::memcpy(to, payload.data(), payload.size());
  held.missing &= ~bit;
  return {};
}

Status AsyncProtocol::on(wire::Rank from, const wire::Absorbed& m) {
  if (m.block >= held_.size()) return fail(ExitCode::kBug, fmt::format("task {} absorbed block {}", from, m.block));
  DTRAIN_TRY_ASSIGN(const std::optional<Work> work, offers_.on(from, m));
  if (!work) return {};
  Push& push = pushes_[*work];
  // What was applied is a version of its own.
  const int64_t behind = m.version - m.step - (m.dropped ? 0 : 1);
  push.lag = std::max(push.lag, static_cast<uint32_t>(std::max<int64_t>(behind, 0)));
  push.dropped |= m.dropped;
  if (push.finished && offers_.unanswered(*work) == 0) send_metrics(*work);
  return {};
}

// --- the compute side

std::optional<Work> AsyncProtocol::next_work() const {
  if (current_ || !fetched_) return std::nullopt;
  if (!evaluations_.empty()) return evaluations_.front();
  if (leases_.empty()) return std::nullopt;
  const Leased& lease = leases_.front();
  const auto k = static_cast<int64_t>(setup_.micro_batches);
  const int64_t step = lease.first / k;
  if (setup_.rule->mode().fetch_every > 1 && !rates_.has(step, step + 1)) return std::nullopt;
  const auto first = static_cast<uint32_t>(lease.first % k);
  return Work{wire::StepKind::kTrain, step, {first, first + 1}, lease.first + 1 == lease.last};
}

bool AsyncProtocol::parameter_ready(ParameterIndex parameter, int64_t) const {
  const std::vector<uint32_t>& blocks = table_.of_parameter(parameter);
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](uint32_t id) { return held_[id].version >= 0 && held_[id].missing == 0; });
}

void AsyncProtocol::started(const Work& work) {
  DTRAIN_CHECK(!current_, "one work at a time");
  current_ = work;
  if (work.kind == wire::StepKind::kEval) {
    evaluations_.pop_front();
  } else {
    DTRAIN_CHECK(!leases_.empty() && leases_.front().first == work.step * setup_.micro_batches + work.node.first);
    if (++leases_.front().first == leases_.front().last) leases_.pop_front();
  }
}

void AsyncProtocol::metrics(const Work& work, const Metrics& metrics) {
  if (cancelled(work)) return;
  wire::MetricNode node{
      .kind = work.kind, .step = work.step, .first = work.node.first, .last = work.node.last, .metrics = metrics};
  if (work.kind == wire::StepKind::kEval)
    outbox_.send(setup_.coordinator, node);
  else
    waiting_.push_back(node);
}

void AsyncProtocol::gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) {
  if (cancelled(work)) return;
  int64_t covered = 0;
  const uint32_t n = number(work);
  for (const uint32_t id : table_.of_parameter(sum.parameter)) {
    const ps::Block& block = table_.block(id);
    if (block.first < sum.first || block.first + block.elements > sum.first + sum.elements) continue;
    covered += block.elements;
    offers_.offer(work, held_[id].version, {n, n + 1}, id, sum.values + (block.first - sum.first), owner);
  }
  DTRAIN_CHECK(covered == sum.elements, "a sum of {} elements covers blocks of {}", sum.elements, covered);
}

void AsyncProtocol::finished(const Work& work) {
  DTRAIN_CHECK(current_ && *current_ == work, "work of step {} is not in progress", work.step);
  current_.reset();
  if (work.kind == wire::StepKind::kTrain) {
    ++since_fetch_;
    fetched_ = false;
    if (work.push) {
      Push& push = pushes_[work];
      push.metrics = std::move(waiting_);
      push.finished = true;
      waiting_.clear();
      if (offers_.unanswered(work) == 0) send_metrics(work);
    }
  } else if (evaluations_.empty()) {
    fetched_ = false;
    since_fetch_ = 0;
  }
  fetch_if_due();  // unless a push is under way: then when it is answered
}

void AsyncProtocol::send_metrics(const Work& work) {
  const auto push = pushes_.find(work);
  for (wire::MetricNode& node : push->second.metrics) {
    node.lag = push->second.lag;
    node.dropped = push->second.dropped;
    outbox_.send(setup_.coordinator, node);
  }
  pushes_.erase(push);
  fetch_if_due();
}

}  // namespace dtrain::worker
