// Keeps a run together, in whichever consistency mode: waits for the tasks, gives micro-batches to live workers and
// rates to servers, counts metrics, orders evaluations and snapshots, ends the run. A state machine without I/O and
// clock: messages and time in, messages out through the outbox. It shares the process of server 0.
//
// Training goes in segments: up to the next version at which something is evaluated or written, or the end. There all
// servers stand, since rates reach only that far. A lost worker costs time, never a micro-batch; a lost server ends the
// run. Threading: one thread, the process's loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "cluster/coordinator_events.h"
#include "cluster/coordinator_options.h"
#include "cluster/full_batch.h"
#include "cluster/lease_book.h"
#include "cluster/metric_tree.h"
#include "cluster/norm_sum.h"
#include "cluster/staleness.h"
#include "cluster/stragglers.h"
#include "consistency/admission_rule.h"
#include "optim/lbfgs.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"

namespace dtrain::cluster {

class Coordinator {
 public:
  // The table, outbox, log and events outlive it.
  Coordinator(CoordinatorOptions options, const ps::BlockTable& table, wire::Outbox& outbox, Log& log,
              CoordinatorEvents& events, Instant now);

  // Join, Ready, Committed, NormPartial, VectorDots, SnapshotDone, MetricNode, WorkDone, Stopped, Failure. An error
  // means that the peer broke the protocol: its connection should be closed and the loss reported.
  Status on_message(wire::Rank from, const wire::Message& message);
  void on_lost(wire::Rank rank, const std::string& reason);
  // A task can be reached; one that comes when the run is over is told so.
  void on_connected(wire::Rank rank);
  // To be called at least every second; how late a worker is is seen no finer.
  void on_tick(Instant now);
  // The time of the messages that follow.
  void set_now(Instant now) { now_ = now; }
  // Whether a snapshot of this version is under way of which that task's shard is still to come.
  bool awaits_shard(wire::Rank from, int64_t version) const {
    return snapshot_ && snapshot_->version == version && tasks_[from].info.serves &&
           !snapshot_->done[tasks_[from].server];
  }
  // Ctrl-C: the run ends at the next step boundary, with a snapshot; the second time at once.
  void interrupt();
  // All tasks have left, or had their time to: the process may end, with the code that on_stopped said.
  bool finished() const { return phase_ == Phase::kFinished; }

  // For those who look on: the first step that is not complete everywhere, the first whose rate no server was told, and
  // what is going on, in a word.
  int64_t step() const { return step_; }
  int64_t rated() const { return rated_; }
  int64_t steps() const { return options_.steps; }
  const char* phase() const;
  // The same in a sentence: whom it waits for, or how far it is.
  std::string doing() const;
  bool ending() const { return phase_ == Phase::kStopping || phase_ == Phase::kFinished; }

 private:
  enum class Phase { kGathering, kBeginning, kTraining, kEvaluating, kBoundary, kStopping, kFinished };
  enum class Presence { kAbsent, kJoined, kBegun, kReady };
  struct Task {
    TaskInfo info;
    uint32_t server = 0;  // index, of those that serve
    Presence presence = Presence::kAbsent;
    uint32_t threads = 0;   // offered
    int64_t committed = 0;  // of those that serve
  };
  struct SnapshotUnderWay {
    int64_t version = 0;
    std::vector<std::optional<wire::SnapshotDone>> done;  // by server
  };

  Status on(wire::Rank from, const wire::Join& m);
  Status on(wire::Rank from, const wire::Ready& m);
  Status on(wire::Rank from, const wire::Committed& m);
  Status on(wire::Rank from, const wire::NormPartial& m);
  Status on(wire::Rank from, const wire::VectorDots& m);
  Status on(wire::Rank from, const wire::SnapshotDone& m);
  Status on(wire::Rank from, const wire::MetricNode& m);
  Status on(wire::Rank from, const wire::WorkDone& m);
  Status on(wire::Rank from, const wire::Stopped& m);
  Status on(wire::Rank from, const wire::Failure& m);
  Status broken(wire::Rank from, const std::string& what) const;

  // Takes a worker's share away, or ends the run where the task holds parameters.
  void do_without(wire::Rank rank, const std::string& reason);
  void begin_when_there();
  const consistency::Mode& mode() const { return rule_->mode(); }
  void begin();
  void send_begin(wire::Rank rank);
  void begin_training_when_ready();
  // Training (coordinator_steps.cc).
  void start_segment();
  void shorten_segment();
  void assign();
  void assign_shares(const std::vector<wire::Rank>& workers);
  void assign_leases(const std::vector<wire::Rank>& workers);
  void send_rates();
  void send_worker_rates(const std::vector<wire::Rank>& workers, int64_t from, int64_t until);
  void look_for_stragglers();
  Status on_lease_done(wire::Rank from, const wire::MetricNode& m);
  void report_step(const Metrics& metrics);
  // Full-batch optimizers (coordinator_vectors.cc).
  void start_vectors();
  void send_order(const optim::VectorOrder& order, FullBatch::Stage stage);
  void advance_vectors();
  void iterated(optim::Lbfgs::Progress progress, const Metrics& metrics, bool first);
  void shorten_vectors();
  // How the version that the servers stand at is called: the run's step.
  int64_t shown() const { return full_batch_ ? full_batch_->iteration : step_; }
  void send_to_servers(const wire::Message& message);
  // Reports what is complete, and goes on to the boundary.
  void advance();
  // At a boundary: snapshot, evaluation, next segment or end, whatever is due next and can be done.
  void proceed();
  void complete_snapshot();
  void stop(ExitCode code, std::string reason);
  void leave_when_all_have();
  void progressed();

  int64_t next_boundary() const;
  bool passes(int64_t version, int64_t every) const;
  bool snapshot_due(int64_t version) const;
  bool eval_due(int64_t version) const;
  std::vector<wire::Rank> ready_workers() const;
  size_t least_workers() const { return options_.min_workers > 0 ? options_.min_workers : 1; }
  bool speculates() const { return options_.speculate && !options_.split; }
  bool enough_workers() const { return ready_workers().size() >= least_workers(); }
  std::string names(const std::function<bool(const Task&)>& which) const;
  std::string waiting_for() const;

  const CoordinatorOptions options_;
  const ps::BlockTable& table_;
  wire::Outbox& outbox_;
  Log& log_;
  CoordinatorEvents& events_;
  std::vector<Task> tasks_;
  std::vector<wire::Rank> servers_;  // ranks, by server index
  Phase phase_ = Phase::kGathering;
  Instant now_ = 0;
  Instant progress_at_ = 0;           // when something last went forward
  Instant said_at_ = 0;               // when it last said whom it waits for
  std::optional<Instant> enough_at_;  // since when the run could begin without those that are missing
  uint32_t threads_ = 0;
  uint32_t generation_ = 0;
  int64_t step_ = 0;   // first that is not complete everywhere
  int64_t until_ = 0;  // end of the segment
  int64_t rated_ = 0;  // servers have the rates of the steps before
  bool interrupted_ = false;
  std::map<int64_t, MetricTree> metrics_;
  std::map<int64_t, NormSum> norms_;
  const std::shared_ptr<const consistency::AdmissionRule> rule_;
  Staleness staleness_;
  Stragglers stragglers_;
  std::map<wire::Rank, uint32_t> shares_;  // micro-batches of each worker in a step
  // Without lockstep: who computes what, and the metrics of the step that fills up.
  LeaseBook leases_;
  Metrics filling_;
  uint32_t filled_ = 0;  // micro-batches
  int64_t steps_ = 0;    // of the run; fewer than planned where an optimizer has converged
  std::optional<FullBatch> full_batch_;
  std::optional<MetricTree> eval_;
  int64_t evaluated_ = -1, snapshot_ordered_ = -1;
  std::optional<SnapshotUnderWay> snapshot_;
  std::string snapshot_error_;  // of the latest one
  ExitCode exit_code_ = ExitCode::kDone;
  std::string stop_reason_;
};

}  // namespace dtrain::cluster
