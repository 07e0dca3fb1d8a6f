// What a run leaves behind and says: metrics.jsonl, manifests, the model file, progress, the final line. The
// coordinator's events, written down. One thread, the coordinator's.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "cluster/coordinator_events.h"
#include "node/answer_shares.h"
#include "node/out_folder.h"
#include "node/run_definition.h"
#include "observe/metrics_file.h"
#include "observe/progress.h"

namespace dtrain::node {

class RunRecord final : public cluster::CoordinatorEvents {
 public:
  struct Setup {
    OutFolder out;
    int64_t first_step = 0, steps = 0;
    uint32_t micro_batches = 1;  // K
    std::string tasks;           // for people: "2 workers, 1 ps"
    uint32_t workers = 1;
  };
  // Everything referred to outlives it.
  static Result<std::unique_ptr<RunRecord>> open(const RunDefinition& run, Setup setup, FileSystem& files,
                                                 const Clock& clock, Log& log, observe::Progress& progress);

  void on_begin(int64_t step, uint32_t threads) override;
  void on_step(const cluster::StepReport& report) override;
  void on_eval(int64_t version, const Metrics& metrics) override;
  Status on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) override;
  void on_snapshot_abandoned(int64_t version, const std::string& reason) override;
  void on_put(int64_t version, const std::string& tensor) override;
  // Of a run that is done: writes the model file, when all other tasks have left.
  void on_stopped(ExitCode code, const std::string& reason) override;
  // What went wrong after the run was done for all others; said nowhere else.
  const Status& outcome() const { return outcome_; }

 private:
  RunRecord(const RunDefinition& run, Setup setup, FileSystem& files, const Clock& clock, Log& log,
            observe::Progress& progress, observe::MetricsFile metrics);
  checkpoint::Manifest manifest(int64_t version, const std::vector<wire::SnapshotDone>& files) const;
  // Where a run that is done has ended: at its last checkpoint, or at the one that it began with.
  int64_t end_step() const { return checkpoint_.value_or(setup_.first_step); }
  void look_at_staleness(const cluster::StalenessReport& report);
  Status write_model();             // from the last checkpoint
  void note(const Status& status);  // a metrics line that could not be written: said once, training goes on
  AnswerShares shares(const Metrics& metrics) const { return answer_shares(run_.network->labels(), metrics); }

  const RunDefinition& run_;
  const Setup setup_;
  FileSystem& files_;
  const Clock& clock_;
  Log& log_;
  observe::Progress& progress_;
  observe::MetricsFile metrics_;
  checkpoint::CheckpointFolder checkpoints_;
  std::optional<Instant> began_;
  Instant row_at_ = 0;  // of the last row
  int64_t row_step_ = 0;
  Instant said_at_ = 0;                // of the last step or evaluation
  std::optional<int64_t> checkpoint_;  // the newest that is complete
  uint32_t threads_ = 1;
  std::optional<double> loss_;  // latest
  std::optional<Metrics> eval_;
  std::optional<cluster::StalenessReport> staleness_;
  bool warned_of_staleness_ = false;
  std::string model_hash_;  // once the model is written
  bool complained_ = false;
  Status outcome_;
};

}  // namespace dtrain::node
