#include "cluster/coordinator.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "consistency/registry.h"

namespace dtrain::cluster {
Coordinator::Coordinator(CoordinatorOptions options, const ps::BlockTable& table, wire::Outbox& outbox, Log& log,
                         CoordinatorEvents& events, Instant now)
    : options_(std::move(options)),
      table_(table),
      outbox_(outbox),
      log_(log),
      events_(events),
      now_(now),
      progress_at_(now),
      said_at_(now),
      step_(options_.first_step),
      until_(options_.first_step),
      rated_(options_.first_step),
      rule_(options_.rule ? options_.rule : consistency::synchronous()),
      leases_(options_.first_step * options_.micro_batches, rule_->mode().push_every),
      steps_(options_.steps) {
  if (options_.lbfgs)
    full_batch_.emplace(
        FullBatch{.lbfgs = {*options_.lbfgs, !options_.checkpoint.empty()}, .dots = DotSum(table), .iteration = step_});
  for (const TaskInfo& info : options_.tasks) {
    const auto rank = static_cast<wire::Rank>(tasks_.size());
    tasks_.push_back({.info = info, .server = static_cast<uint32_t>(servers_.size()), .committed = step_});
    if (info.serves) servers_.push_back(rank);
  }
  DTRAIN_CHECK(servers_.size() == table.servers(), "{} tasks serve, {} servers have blocks", servers_.size(),
               table.servers());
  DTRAIN_CHECK(options_.rate, "no learning rate");
}

Status Coordinator::broken(wire::Rank from, const std::string& what) const {
  return fail(ExitCode::kBug, fmt::format("{} sent {}", tasks_[from].info.name, what));
}

Status Coordinator::on_message(wire::Rank from, const wire::Message& message) {
  if (from >= tasks_.size()) return fail(ExitCode::kBug, fmt::format("there is no task of rank {}", from));
  if (const auto* join = std::get_if<wire::Join>(&message)) return on(from, *join);
  if (tasks_[from].presence == Presence::kAbsent) return {};  // what was under way from a lost task
  return std::visit(
      [&](const auto& m) -> Status {
        if constexpr (requires { this->on(from, m); }) return on(from, m);
        return broken(from, "a message that is not for the coordinator");
      },
      message);
}

// --- tasks come and go

Status Coordinator::on(wire::Rank from, const wire::Join& m) {
  Task& task = tasks_[from];
  if (m.computes != task.info.computes || m.serves != task.info.serves) {
    return broken(from, "a join with other roles than the cluster spec gives it");
  }
  if (task.presence != Presence::kAbsent) on_lost(from, "it was started anew");
  task.presence = Presence::kJoined;
  task.threads = m.threads;
  if (phase_ == Phase::kStopping || phase_ == Phase::kFinished) {
    outbox_.send(from, wire::Stop{static_cast<uint8_t>(exit_code_), stop_reason_});
  } else if (phase_ == Phase::kGathering) {
    log_.debug("{} is there", task.info.name);
    begin_when_there();
  } else {
    log_.info("{} joins at step {}", task.info.name, step_);
    send_begin(from);
  }
  return {};
}

// With all that are listed; or with enough of them, when the others have had their time.
void Coordinator::begin_when_there() {
  const auto is_there = [](const Task& t) { return t.presence == Presence::kJoined; };
  const auto workers = std::ranges::count_if(tasks_, [&](const Task& t) { return t.info.computes && is_there(t); });
  const bool enough = static_cast<size_t>(workers) >= least_workers() &&
                      std::ranges::all_of(tasks_, [&](const Task& t) { return !t.info.serves || is_there(t); });
  if (!enough) {
    enough_at_.reset();
    return;
  }
  if (!enough_at_) enough_at_ = now_;
  const bool waited = options_.min_workers > 0 && now_ - *enough_at_ >= options_.start_grace;
  if (waited || std::ranges::all_of(tasks_, [&](const Task& t) { return t.info.optional || is_there(t); })) begin();
}

void Coordinator::begin() {
  phase_ = Phase::kBeginning;
  progressed();
  threads_ = options_.threads;
  if (threads_ == 0) {
    for (const Task& task : tasks_) {
      if (!task.info.computes || task.presence == Presence::kAbsent) continue;
      if (threads_ == 0 || task.threads < threads_) threads_ = task.threads;
    }
    threads_ = std::max(threads_, 1U);
  }
  events_.on_begin(step_, threads_);
  for (wire::Rank rank = 0; rank < tasks_.size(); ++rank) {
    if (tasks_[rank].presence == Presence::kJoined) send_begin(rank);
  }
}

void Coordinator::send_begin(wire::Rank rank) {
  Task& task = tasks_[rank];
  if (task.info.computes && task.threads < threads_) {
    log_.warning("{} offers {} threads, the run computes with {}", task.info.name, task.threads, threads_);
  }
  task.presence = Presence::kBegun;
  outbox_.send(rank, wire::Begin{.micro_batches = options_.micro_batches,
                                 .eval_micro_batches = options_.eval_micro_batches,
                                 .threads = threads_,
                                 .step = step_,
                                 .checkpoint = options_.checkpoint});
}

Status Coordinator::on(wire::Rank from, const wire::Ready&) {
  Task& task = tasks_[from];
  if (phase_ == Phase::kStopping || phase_ == Phase::kFinished) return {};
  if (task.presence != Presence::kBegun) return broken(from, "ready without having been told to begin");
  task.presence = Presence::kReady;
  if (phase_ == Phase::kBeginning) {
    begin_training_when_ready();
  } else if (task.info.computes && (phase_ == Phase::kTraining || phase_ == Phase::kEvaluating)) {
    progressed();
    if (phase_ == Phase::kTraining && mode().lockstep) send_worker_rates({from}, step_, rated_);
    log_.info("{} computes from step {} on, one of {} workers", task.info.name, step_, ready_workers().size());
    assign();
  }
  return {};
}

void Coordinator::begin_training_when_ready() {
  for (const Task& task : tasks_) {
    // A worker that is gone again is not waited for; servers are all needed.
    if (task.presence == Presence::kJoined || task.presence == Presence::kBegun) return;
  }
  if (!enough_workers()) return;
  phase_ = Phase::kBoundary;
  proceed();
}

void Coordinator::on_lost(wire::Rank rank, const std::string& reason) {
  DTRAIN_CHECK(rank < tasks_.size());
  Task& task = tasks_[rank];
  if (task.presence == Presence::kAbsent || phase_ == Phase::kFinished) return;
  if (phase_ != Phase::kStopping && (!task.info.serves || phase_ == Phase::kGathering)) {
    log_.warning("{} ({}) is lost at step {}: {}", task.info.name, task.info.address, step_, reason);
  }
  do_without(rank, reason);
}

void Coordinator::on_connected(wire::Rank rank) {
  if (phase_ != Phase::kStopping && phase_ != Phase::kFinished) return;
  outbox_.send(rank, wire::Stop{static_cast<uint8_t>(exit_code_), stop_reason_});
}

void Coordinator::do_without(wire::Rank rank, const std::string& reason) {
  Task& task = tasks_[rank];
  task.presence = Presence::kAbsent;
  leases_.lost(rank);
  stragglers_.forget(rank);
  if (phase_ == Phase::kStopping) {
    leave_when_all_have();
    return;
  }
  if (task.info.serves && phase_ != Phase::kGathering) {
    stop(ExitCode::kPeerLost, fmt::format("{} ({}), which holds parameters, is lost at step {}: {}", task.info.name,
                                          task.info.address, step_, reason));
    return;
  }
  if (task.info.computes && options_.split && phase_ != Phase::kGathering) {
    stop(ExitCode::kPeerLost, fmt::format("{} ({}), which computes a part of the network, is lost at step {}: {}",
                                          task.info.name, task.info.address, step_, reason));
    return;
  }
  if (phase_ == Phase::kGathering) begin_when_there();
  if (phase_ == Phase::kBeginning) begin_training_when_ready();
  if (phase_ == Phase::kTraining && interrupted_ && !enough_workers()) {
    stop(ExitCode::kInterrupted, fmt::format("interrupted after step {} of {}", shown(), steps_));
  }
  if (phase_ == Phase::kTraining || phase_ == Phase::kEvaluating) assign();
}

Status Coordinator::on(wire::Rank from, const wire::Failure& m) {
  const auto code = m.exit_code == 0 ? ExitCode::kBug : static_cast<ExitCode>(m.exit_code);
  stop(code, fmt::format("{}: {}", tasks_[from].info.name, m.reason));
  return {};
}

Status Coordinator::on(wire::Rank from, const wire::Stopped&) {
  const TaskInfo& info = tasks_[from].info;
  if (phase_ != Phase::kStopping) log_.info("{} ({}) leaves at step {}", info.name, info.address, step_);
  do_without(from, "it has left");
  return {};
}

// --- boundaries

// Whether a multiple of `every` lies in the steps that the version adds to the one before.
bool Coordinator::passes(int64_t version, int64_t every) const {
  return every > 0 && version / every > (version - mode().stride) / every;
}

bool Coordinator::snapshot_due(int64_t version) const {
  if (options_.checkpoint_folder.empty()) return false;
  // An optimizer may find nothing better than where a new run begins.
  if (version <= options_.first_step && !(full_batch_ && options_.checkpoint.empty())) return false;
  return version == steps_ || interrupted_ || passes(version, options_.checkpoint_every);
}

bool Coordinator::eval_due(int64_t version) const {
  if (options_.eval_micro_batches == 0 || interrupted_ || version <= options_.first_step) return false;
  if (version == steps_ || passes(version, options_.eval_every)) return true;
  bool at = false;
  for (int64_t v = version - mode().stride + 1; options_.eval_at && v <= version; ++v) at |= options_.eval_at(v);
  return at;
}

void Coordinator::proceed() {
  if (phase_ != Phase::kBoundary) return;
  progressed();
  if (snapshot_due(shown()) && snapshot_ordered_ < shown()) {
    if (snapshot_) return;  // one at a time: goes on when that one is done
    snapshot_ = SnapshotUnderWay{shown(), std::vector<std::optional<wire::SnapshotDone>>(servers_.size())};
    snapshot_ordered_ = shown();
    snapshot_error_.clear();
    send_to_servers(
        wire::Snapshot{.version = step_, .folder = options_.checkpoint_folder, .step = full_batch_ ? shown() : -1});
  }
  if (eval_due(shown()) && evaluated_ < shown()) {
    phase_ = Phase::kEvaluating;
    eval_.emplace(options_.eval_micro_batches);
    assign();
    return;
  }
  if (shown() < steps_ && !interrupted_) {
    start_segment();
    return;
  }
  if (snapshot_) return;  // the run ends with what is written
  if (!snapshot_error_.empty() && snapshot_ordered_ == shown()) {
    stop(ExitCode::kCheckpoint, fmt::format("the last checkpoint, of step {}: {}", shown(), snapshot_error_));
  } else if (shown() < steps_) {
    stop(ExitCode::kInterrupted, fmt::format("interrupted after step {} of {}", shown(), steps_));
  } else {
    stop(ExitCode::kDone, "");
  }
}

Status Coordinator::on(wire::Rank from, const wire::SnapshotDone& m) {
  if (!tasks_[from].info.serves) return broken(from, "that it wrote a snapshot, but it holds no parameters");
  if (!snapshot_ || snapshot_->version != m.version) return {};
  snapshot_->done[tasks_[from].server] = m;
  if (std::ranges::all_of(snapshot_->done, [](const auto& done) { return done.has_value(); })) complete_snapshot();
  return {};
}

void Coordinator::complete_snapshot() {
  const int64_t version = snapshot_->version;
  std::vector<wire::SnapshotDone> files;
  for (uint32_t server = 0; server < servers_.size(); ++server) {
    files.push_back(*snapshot_->done[server]);
    if (!files.back().error.empty() && snapshot_error_.empty()) {
      snapshot_error_ = fmt::format("{}: {}", tasks_[servers_[server]].info.name, files.back().error);
    }
  }
  snapshot_.reset();
  if (snapshot_error_.empty()) {
    if (Status written = events_.on_snapshot_complete(version, files); !written) {
      snapshot_error_ = written.error().message;
    }
  } else {
    events_.on_snapshot_abandoned(version, snapshot_error_);
  }
  if (!snapshot_error_.empty()) log_.error("there is no checkpoint of step {}: {}", version, snapshot_error_);
  proceed();
}

// --- the end

void Coordinator::interrupt() {
  const bool again = interrupted_;
  interrupted_ = true;
  switch (phase_) {
    case Phase::kStopping:
    case Phase::kFinished:
      return;
    case Phase::kGathering:
    case Phase::kBeginning:
      stop(ExitCode::kInterrupted, fmt::format("interrupted before step {}", step_));
      return;
    case Phase::kTraining:
      if (again || !enough_workers()) break;
      full_batch_ ? shorten_vectors() : shorten_segment();
      return;
    case Phase::kEvaluating:
    case Phase::kBoundary:
      if (again) break;
      phase_ = Phase::kBoundary;
      proceed();
      return;
  }
  stop(ExitCode::kInterrupted, fmt::format("interrupted after step {} of {}", shown(), steps_));
}

const char* Coordinator::phase() const {
  switch (phase_) {
    case Phase::kGathering:
      return "gathering";
    case Phase::kBeginning:
      return "beginning";
    case Phase::kTraining:
      return "training";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kBoundary:
      return "writing";
    case Phase::kStopping:
      return "stopping";
    case Phase::kFinished:
      return "finished";
  }
  return "";
}

void Coordinator::stop(ExitCode code, std::string reason) {
  if (phase_ == Phase::kStopping || phase_ == Phase::kFinished) return;
  // Before all have joined, some are connected (this process's own task among them) and would wait on for ever.
  const bool tell_all = phase_ == Phase::kGathering;
  phase_ = Phase::kStopping;
  exit_code_ = code;
  stop_reason_ = std::move(reason);
  progressed();
  if (code == ExitCode::kInterrupted) log_.info("{}", stop_reason_);
  if (code != ExitCode::kDone && code != ExitCode::kInterrupted) log_.error("the run ends: {}", stop_reason_);
  if (snapshot_) events_.on_snapshot_abandoned(snapshot_->version, "the run ends");
  snapshot_.reset();
  for (wire::Rank rank = 0; rank < tasks_.size(); ++rank) {
    if (tasks_[rank].presence == Presence::kAbsent && !tell_all) continue;
    outbox_.send(rank, wire::Stop{static_cast<uint8_t>(code), stop_reason_});
  }
  leave_when_all_have();
}

void Coordinator::leave_when_all_have() {
  for (const Task& task : tasks_) {
    if (task.presence != Presence::kAbsent) return;
  }
  phase_ = Phase::kFinished;
  events_.on_stopped(exit_code_, stop_reason_);
}

}  // namespace dtrain::cluster
