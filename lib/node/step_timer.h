// Times the steps of a run that leaves nothing behind: what `dtrain benchmark step` listens with. One thread, the
// coordinator's.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/coordinator_events.h"

namespace dtrain::node {

class StepTimer final : public cluster::CoordinatorEvents {
 public:
  // The first `warmup` steps are not counted. In rounds of local steps each counts as its part of the round.
  StepTimer(const Clock& clock, int64_t warmup) : clock_(clock), warmup_(warmup) {}

  void on_begin(int64_t step, uint32_t) override {
    next_ = step;
    last_ = clock_.now();
  }
  void on_step(const cluster::StepReport& report) override {
    const Instant now = clock_.now();
    const int64_t n = report.step + 1 - next_;
    if (next_ >= warmup_) steps_.insert(steps_.end(), static_cast<size_t>(n), (now - last_) / n);
    next_ += n;
    last_ = now;
  }
  void on_eval(int64_t, const Metrics&) override {}
  Status on_snapshot_complete(int64_t, const std::vector<wire::SnapshotDone>&) override { return {}; }
  void on_snapshot_abandoned(int64_t, const std::string&) override {}
  void on_stopped(ExitCode, const std::string&) override {}

  // In the order of the steps.
  const std::vector<Nanoseconds>& steps() const { return steps_; }

 private:
  const Clock& clock_;
  const int64_t warmup_;
  int64_t next_ = 0;
  Instant last_ = 0;
  std::vector<Nanoseconds> steps_;
};

}  // namespace dtrain::node
