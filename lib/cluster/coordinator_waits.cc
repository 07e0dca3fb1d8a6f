// The coordinator's patience: whom it waits for, how long, and what it says of it.
#include "cluster/coordinator.h"

namespace dtrain::cluster {
namespace {

constexpr Nanoseconds kSayEvery = 5 * kSecond;

}  // namespace

void Coordinator::progressed() { progress_at_ = said_at_ = now_; }

std::string Coordinator::names(const std::function<bool(const Task&)>& which) const {
  std::string out;
  for (const Task& task : tasks_) {
    if (which(task)) out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", task.info.name, task.info.address);
  }
  return out;
}

std::string Coordinator::waiting_for() const {
  switch (phase_) {
    case Phase::kGathering:
      return fmt::format("the start: {}{}",
                         names([](const Task& t) { return t.presence == Presence::kAbsent && !t.info.optional; }),
                         options_.min_workers > 0 ? fmt::format("; at least {} workers", options_.min_workers) : "");
    case Phase::kBeginning: {
      const std::string late = names([](const Task& t) {
        return t.presence != Presence::kReady && (t.presence != Presence::kAbsent || !t.info.optional);
      });
      return fmt::format("version {} to be loaded: {}", step_, late.empty() ? "a worker" : late);
    }
    case Phase::kTraining:
    case Phase::kEvaluating: {
      if (!enough_workers()) {
        const std::string absent =
            names([](const Task& t) { return t.info.computes && !t.info.optional && t.presence != Presence::kReady; });
        return fmt::format("step {}: {}{}{}", step_,
                           least_workers() == 1 ? "a worker"
                                                : fmt::format("at least {} workers instead of {}", least_workers(),
                                                              ready_workers().size()),
                           absent.empty() ? "" : ", of ", absent);
      }
      const std::string late = names([&](const Task& t) { return t.info.serves && t.committed <= step_; });
      const std::string workers =
          names([](const Task& t) { return t.info.computes && t.presence == Presence::kReady; });
      if (phase_ == Phase::kEvaluating) return fmt::format("the evaluation at step {}: {}", step_, workers);
      if (!mode().lockstep) return fmt::format("pushes of step {}: {}", step_, workers);
      return fmt::format("step {} on {}", step_, late.empty() ? "its metrics" : late);
    }
    case Phase::kBoundary:
      return fmt::format(
          "the checkpoint of step {}: {}", snapshot_ ? snapshot_->version : step_,
          names([&](const Task& t) { return t.info.serves && snapshot_ && !snapshot_->done[t.server]; }));
    case Phase::kStopping:
      return "the end: " + names([](const Task& t) { return t.presence != Presence::kAbsent; });
    case Phase::kFinished:
      break;
  }
  return "";
}

std::string Coordinator::doing() const {
  const std::string position = fmt::format("step {} of {}", shown(), options_.steps);
  switch (phase_) {
    case Phase::kTraining:
      if (enough_workers()) return position;
      break;
    case Phase::kEvaluating:
      return position + ", evaluating";
    case Phase::kBoundary:
      return position + ", writing a checkpoint";
    case Phase::kFinished:
      return position + ", ended";
    default:
      break;
  }
  return "waiting for " + waiting_for();
}

void Coordinator::on_tick(Instant now) {
  now_ = now;
  look_for_stragglers();
  const Nanoseconds waited = now - progress_at_;
  const auto seconds = [](Nanoseconds t) { return t / kSecond; };
  switch (phase_) {
    case Phase::kFinished:
      return;
    case Phase::kStopping:
      if (waited < options_.peer_timeout) return;
      log_.warning("waited {} s for {}", seconds(waited), waiting_for());
      for (Task& task : tasks_) task.presence = Presence::kAbsent;
      leave_when_all_have();
      return;
    case Phase::kGathering:
      begin_when_there();
      if (phase_ != Phase::kGathering) return;
      [[fallthrough]];
    case Phase::kBeginning:
      if (waited >= options_.start_timeout) {
        stop(ExitCode::kPeerLost, fmt::format("waited {} s for {}", seconds(waited), waiting_for()));
        return;
      }
      break;
    default:
      if (waited >= options_.idle_timeout) {
        stop(ExitCode::kPeerLost, fmt::format("waited {} s for {}", seconds(waited), waiting_for()));
        return;
      }
      // While workers compute, steps may take their time.
      if (waited < options_.peer_timeout && enough_workers()) return;
      break;
  }
  if (now - said_at_ < kSayEvery) return;
  said_at_ = now;
  log_.info("waiting for {} ({} s)", waiting_for(), seconds(waited));
}

}  // namespace dtrain::cluster
