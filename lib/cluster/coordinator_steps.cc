// How the coordinator leads through the steps of a segment: shares and leases, rates, metrics, stragglers.
#include <algorithm>
#include <cmath>

#include "cluster/coordinator.h"

namespace dtrain::cluster {
namespace {

// So many versions may be under way: a server that has committed one finds the next rate there, and an interruption
// waits for no more than these.
constexpr int64_t kVersionsAhead = 2;
// Leases that a worker has at a time: one that it computes, one so that it need not wait for the next.
constexpr size_t kLeases = 2;

}  // namespace

void Coordinator::start_segment() {
  phase_ = Phase::kTraining;
  until_ = full_batch_ ? step_ + 1 : next_boundary();
  progressed();
  if (full_batch_) return start_vectors();
  send_rates();
  stragglers_.opened(step_, now_);
  leases_.extend(until_ * options_.micro_batches);
  assign();
}

// The run is to end soon: what servers may commit already, and what is leased, cannot be taken back.
void Coordinator::shorten_segment() {
  if (mode().lockstep) {
    until_ = rated_;
  } else {
    const int64_t k = options_.micro_batches;
    until_ = std::clamp((leases_.next() + k - 1) / k, step_ + 1, until_);
    leases_.extend(until_ * k);
  }
  assign();
}

int64_t Coordinator::next_boundary() const {
  int64_t version = step_ + mode().stride;
  while (version < options_.steps && !snapshot_due(version) && !eval_due(version)) version += mode().stride;
  return version;
}

std::vector<wire::Rank> Coordinator::ready_workers() const {
  std::vector<wire::Rank> out;
  for (wire::Rank rank = 0; rank < tasks_.size(); ++rank) {
    if (tasks_[rank].info.computes && tasks_[rank].presence == Presence::kReady) out.push_back(rank);
  }
  return out;
}

void Coordinator::assign() {
  const std::vector<wire::Rank> workers = ready_workers();
  if (phase_ == Phase::kTraining && !mode().lockstep) return assign_leases(workers);
  assign_shares(workers);
}

// Contiguous shares of the micro-batches, in the order of ranks. Those of suspects are cut among the others, too; an
// evaluation is theirs alone.
void Coordinator::assign_shares(const std::vector<wire::Rank>& workers) {
  const bool train = phase_ == Phase::kTraining;
  const uint32_t n = train ? options_.micro_batches : options_.eval_micro_batches;
  const bool enough = enough_workers();  // if not, those that are there wait, too
  const auto share_of = [&](uint32_t i, size_t workers) {
    if (options_.split) return ps::Node{0, n};
    return ps::share(i, static_cast<uint32_t>(workers), n);
  };
  std::vector<wire::Rank> fast, suspects;
  for (const wire::Rank rank : workers) (stragglers_.suspected(rank) ? suspects : fast).push_back(rank);
  if (fast.empty()) {
    fast = workers;
    suspects.clear();
  }
  const std::vector<wire::Rank>& sharing = train ? workers : fast;
  ++generation_;
  std::map<wire::Rank, ps::Node> shares;
  for (uint32_t i = 0; i < sharing.size(); ++i) {
    const ps::Node share = enough ? share_of(i, sharing.size()) : ps::Node{0, 0};
    shares[sharing[i]] = share;
    if (train) shares_[sharing[i]] = share.size();
  }
  std::erase_if(shares_, [&](const auto& s) { return train && !shares.contains(s.first); });
  for (uint32_t i = 0; i < sharing.size(); ++i) {
    const ps::Node share = shares[sharing[i]];
    wire::Assign assign{.generation = generation_,
                        .kind = train ? wire::StepKind::kTrain : wire::StepKind::kEval,
                        .from = step_,
                        .until = train ? until_ : step_ + 1,
                        .first = share.first,
                        .last = share.last};
    const auto at = std::ranges::find(fast, sharing[i]);
    if (train && !suspects.empty() && at != fast.end()) {
      // One suspect for every so many of the fast, or several of them in turn.
      const auto place = static_cast<uint32_t>(at - fast.begin()), s = static_cast<uint32_t>(suspects.size());
      const ps::Node whose = shares[suspects[place % s]];
      const uint32_t helpers = (static_cast<uint32_t>(fast.size()) - place % s + s - 1) / s;
      const ps::Node part = ps::share(place / s, helpers, whose.size());
      assign.also_first = whose.first + part.first;
      assign.also_last = whose.first + part.last;
    }
    outbox_.send(sharing[i], assign);
  }
}

void Coordinator::assign_leases(const std::vector<wire::Rank>& workers) {
  if (!enough_workers()) return;
  for (const wire::Rank rank : workers) {
    while (leases_.held(rank) < kLeases) {
      const std::optional<Lease> lease = leases_.lease(rank);
      if (!lease) return;
      ++generation_;
      const int64_t k = options_.micro_batches;
      send_worker_rates({rank}, lease->first / k, (lease->last - 1) / k + 1);
      outbox_.send(rank, wire::Assign{.generation = generation_, .from = lease->first, .until = lease->last});
    }
  }
}

void Coordinator::send_to_servers(const wire::Message& message) {
  for (const wire::Rank rank : servers_) outbox_.send(rank, message);
}

void Coordinator::send_rates() {
  const int64_t ahead = mode().lockstep ? kVersionsAhead * mode().stride : 1;
  const int64_t until = std::min(until_, step_ + ahead);
  if (until <= rated_) return;
  wire::Rates rates{.from = rated_, .rates = {}};
  for (; rated_ < until; rated_ += mode().stride) rates.rates.push_back(options_.rate(rated_));
  send_to_servers(rates);
  if (mode().lockstep) send_worker_rates(ready_workers(), rates.from, rated_);
}

void Coordinator::send_worker_rates(const std::vector<wire::Rank>& workers, int64_t from, int64_t until) {
  if (!options_.worker_rate) return;
  wire::WorkerRates rates{.from = from, .rates = {}};
  for (int64_t step = from; step < until; ++step) rates.rates.push_back(options_.worker_rate(step));
  for (const wire::Rank rank : workers) outbox_.send(rank, rates);
}

Status Coordinator::on(wire::Rank from, const wire::MetricNode& m) {
  const ps::Node node{m.first, m.last};
  const bool eval = m.kind == wire::StepKind::kEval;
  const int64_t ahead = (mode().window - 1) * mode().stride;
  if (!tasks_[from].info.computes || (!eval && m.kind != wire::StepKind::kTrain) ||
      !ps::is_node(node, eval ? options_.eval_micro_batches : options_.micro_batches) ||
      (!eval && m.step > rated_ + ahead && mode().lockstep)) {
    return broken(
        from, fmt::format("metrics of micro-batches {}-{} of step {}, which it cannot have", m.first, m.last, m.step));
  }
  if (eval) {
    if (phase_ != Phase::kEvaluating || m.step != step_ || !eval_->add(node, m.metrics)) return {};
    progressed();
    const Metrics* root = eval_->root();
    if (root == nullptr) return {};
    evaluated_ = shown();
    events_.on_eval(shown(), *root);
    phase_ = Phase::kBoundary;
    proceed();
    return {};
  }
  if (!mode().lockstep) return on_lease_done(from, m);
  if (m.step < step_ && mode().needed > 0) staleness_.add_dropped();
  if (phase_ != Phase::kTraining || m.step < step_ || m.step >= until_) return {};
  if (metrics_.try_emplace(m.step, options_.micro_batches).first->second.add(node, m.metrics)) {
    if (mode().newest)
      for (uint32_t k = m.first; k < m.last; ++k) staleness_.add(m.lag, false);
    progressed();
    advance();
  }
  return {};
}

// A micro-batch whose push all servers have taken. Steps fill up with those that come.
Status Coordinator::on_lease_done(wire::Rank from, const wire::MetricNode& m) {
  if (m.last - m.first != 1) return broken(from, "metrics of a push of several micro-batches");
  if (phase_ != Phase::kTraining || m.step < 0 || m.step >= until_ ||
      !leases_.done(from, m.step * options_.micro_batches + m.first))
    return {};
  progressed();
  staleness_.add(m.lag, m.dropped);
  if (!std::isfinite(m.metrics.loss)) {
    stop(ExitCode::kNotFinite, fmt::format("step {}: the loss is {}", m.step, m.metrics.mean_loss()));
    return {};
  }
  filling_ += m.metrics;
  if (++filled_ == options_.micro_batches) {
    const Metrics metrics = filling_;
    filling_ = {};
    filled_ = 0;
    report_step(metrics);
  }
  if (step_ == until_ && leases_.complete()) {
    phase_ = Phase::kBoundary;
    proceed();
  } else {
    assign();
  }
  return {};
}

Status Coordinator::on(wire::Rank from, const wire::WorkDone& m) {
  const int64_t ahead = (mode().window - 1) * mode().stride;
  if (!tasks_[from].info.computes || m.first >= m.last || m.last > options_.micro_batches ||
      (m.step > rated_ + ahead && mode().lockstep)) {
    return broken(from, fmt::format("that it is done with micro-batches {}-{} of step {}", m.first, m.last, m.step));
  }
  if (speculates()) stragglers_.done(from, m.step, m.last - m.first, now_);
  return {};
}

Status Coordinator::on(wire::Rank from, const wire::Committed& m) {
  Task& task = tasks_[from];
  if (!task.info.serves || m.version <= task.committed || m.version > rated_) {
    return broken(from, fmt::format("that it committed version {}, which it cannot have", m.version));
  }
  task.committed = m.version;
  progressed();
  advance();
  return {};
}

Status Coordinator::on(wire::Rank from, const wire::NormPartial& m) {
  const Task& task = tasks_[from];
  const size_t expected = task.info.serves ? NormSum::expected(table_, options_.norms, task.server, m.round) : 0;
  if (expected == 0 || m.step > rated_ || m.squares.size() != expected) {
    return broken(from, fmt::format("{} partial sums of norms in round {} of step {}, instead of {}", m.squares.size(),
                                    m.round, m.step, expected));
  }
  if (phase_ != Phase::kTraining || m.step < step_) return {};
  const auto pushes = mode().needed > 0 ? static_cast<uint32_t>(mode().needed) : options_.micro_batches;
  NormSum& norms = norms_.try_emplace(m.step, table_, options_.norms, pushes).first->second;
  if (!norms.add(task.server, m)) return {};
  progressed();
  const wire::NormFactor factor = norms.answer(m.step);
  if (norms.broken()) {
    stop(ExitCode::kNotFinite, fmt::format("step {}: the norm of the gradient is not finite", m.step));
    return {};
  }
  send_to_servers(factor);
  return {};
}

void Coordinator::advance() {
  if (full_batch_) return advance_vectors();
  while (phase_ == Phase::kTraining && step_ < until_) {
    const auto metrics = metrics_.find(step_);
    if (metrics == metrics_.end()) return;
    const MetricTree& tree = metrics->second;
    const auto needed = mode().needed > 0 ? static_cast<uint32_t>(mode().needed) : options_.micro_batches;
    if (tree.micro_batches() < needed) return;
    const Metrics sum = tree.root() ? *tree.root() : tree.sum();
    if (!std::isfinite(sum.loss)) {
      stop(ExitCode::kNotFinite, fmt::format("step {}: the loss is {}", step_, sum.mean_loss()));
      return;
    }
    if (std::ranges::any_of(servers_, [&](wire::Rank rank) { return tasks_[rank].committed <= step_; })) return;
    for (uint32_t late = needed; mode().needed > 0 && late < tree.micro_batches(); ++late) staleness_.add_dropped();
    report_step(sum);
    if (speculates()) {
      const bool suspects = stragglers_.any();
      const bool cleared = stragglers_.closed(shares_);
      stragglers_.opened(step_, now_);
      // Who still computes for the step that is done leaves that.
      if (step_ < until_ && (suspects || cleared)) assign();
    }
  }
  if (phase_ == Phase::kTraining) {
    phase_ = Phase::kBoundary;
    proceed();
  }
}

void Coordinator::report_step(const Metrics& metrics) {
  StepReport report{.step = step_ + mode().stride - 1,
                    .metrics = metrics,
                    .rate = options_.rate(step_),
                    .norm = std::nullopt,
                    .staleness = std::nullopt};
  if (const auto norms = norms_.find(step_); norms != norms_.end()) report.norm = norms->second.gradient_norm();
  if (mode().newest || mode().needed > 0) report.staleness = staleness_.report();
  metrics_.erase(step_);
  norms_.erase(step_);
  step_ += mode().stride;
  events_.on_step(report);
  send_rates();
}

void Coordinator::look_for_stragglers() {
  if (!speculates() || phase_ != Phase::kTraining) return;
  const std::vector<wire::Rank> late = stragglers_.find_late(shares_, now_);
  for (const wire::Rank rank : late)
    log_.info("{} is slow at step {}: others compute its share as well", tasks_[rank].info.name, step_);
  if (!late.empty()) assign();
}

}  // namespace dtrain::cluster
