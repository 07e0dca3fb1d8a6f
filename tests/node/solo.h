// A whole run in this process, as `dtrain run` composes it.
#pragma once

#include <atomic>

#include "node/coordinator_setup.h"
#include "node/run_record.h"
#include "node/solo_run.h"
#include "node/start_plan.h"
#include "tests/node/run_text.h"

namespace dtrain::node {

// Hands the coordinator's events on, and interrupts after a step.
class Interrupting final : public cluster::CoordinatorEvents {
 public:
  Interrupting(cluster::CoordinatorEvents& to, int64_t after, std::atomic<int>& interrupts)
      : to_(to), after_(after), interrupts_(interrupts) {}
  void on_begin(int64_t step, uint32_t threads) override { to_.on_begin(step, threads); }
  void on_step(const cluster::StepReport& report) override {
    to_.on_step(report);
    if (report.step + 1 == after_) ++interrupts_;
  }
  void on_eval(int64_t version, const Metrics& metrics) override { to_.on_eval(version, metrics); }
  Status on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) override {
    return to_.on_snapshot_complete(version, files);
  }
  void on_snapshot_abandoned(int64_t version, const std::string& reason) override {
    to_.on_snapshot_abandoned(version, reason);
  }
  void on_stopped(ExitCode code, const std::string& reason) override { to_.on_stopped(code, reason); }

 private:
  cluster::CoordinatorEvents& to_;
  const int64_t after_;
  std::atomic<int>& interrupts_;
};

struct SoloResult {
  ExitCode code = ExitCode::kBug;
  std::string said;  // also the error of a run that does not begin
};

struct SoloOptions {
  bool resume = false;
  int64_t interrupt_after = -1;  // step
  std::string init_model;
};

inline SoloResult train_solo(const RunDefinition& run, const std::string& out_path, FileSystem& files,
                             const SoloOptions& options = {}) {
  RememberingLog log;
  const SteadyClock clock;
  observe::Progress progress(stderr, observe::ProgressMode::kNone, false);
  const OutFolder out(out_path);
  const auto plan = plan_start(run, 1, out, options.resume, files, log);
  if (!plan) return {plan.error().code, plan.error().message};
  const auto record = RunRecord::open(run, {out, plan->first_step, plan->steps, plan->micro_batches, "1 worker"}, files,
                                      clock, log, progress);
  if (!record) return {record.error().code, record.error().message};
  std::atomic<int> interrupts = 0;
  Interrupting events(**record, options.interrupt_after, interrupts);
  TaskSetup setup;
  setup.init_model = options.init_model;
  setup.coordinator = coordinator_options(run, *plan, out.checkpoints());
  setup.events = &events;
  const ExitCode code = run_solo(run, std::move(setup), files, clock, log, interrupts);
  if (code == ExitCode::kDone && !(*record)->outcome())
    return {(*record)->outcome().error().code, log.text() + (*record)->outcome().error().message};
  return {code, log.text()};
}

}  // namespace dtrain::node
