// One task of a run: its roles (coordinator, shard server, worker) behind a transport, from joining the run to its end.
// Knows neither sockets nor threads: whoever owns it drives the transport, the clock and the worker.
//
// One thread, the transport's loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/coordinator.h"
#include "cluster/spec.h"
#include "net/transport.h"
#include "node/network_split.h"
#include "node/run_definition.h"
#include "node/shard_loader.h"
#include "node/shard_transfer.h"
#include "node/snapshot_writer.h"
#include "node/worker_driver.h"
#include "observe/service_notifier.h"
#include "ps/shard_server.h"
#include "watch/guest_desk.h"
#include "watch/status_meter.h"

namespace dtrain::node {

// What surrounds a task; all of it outlives the task.
struct TaskSurroundings {
  net::Transport& transport;
  wire::Outbox& worker_outbox;  // for what the worker sends, from whichever thread its driver uses
  WorkerDriver& driver;
  FileSystem& files;
  const Clock& clock;
  Log& log;
  std::function<void()> wake;                          // makes the loop call on_tick soon; from any thread
  std::shared_ptr<SharedMemory> memory = nullptr;      // where what is sent lies; null: the heap
  std::function<watch::TaskCounters()> counters = {};  // of this process, for those who watch; empty: nobody can
};

struct TaskSetup {
  wire::Rank self = 0;
  uint64_t incarnation = 0;
  uint32_t threads = 1;    // that this host can give to one micro-batch
  std::string init_model;  // file; empty: drawn, or from the checkpoint
  Digest init_digest{};    // of what is in it; zero: no file
  // Of rank 0, which is the coordinator: what its options leave to the run (tasks, table) is filled in by the task.
  std::optional<cluster::CoordinatorOptions> coordinator;
  cluster::CoordinatorEvents* events = nullptr;
  worker::OpProfile* profile = nullptr;         // of the worker's training ops
  observe::ServiceNotifier* service = nullptr;  // who started the process and wants to hear of it; null: nobody
  // In one process the server's values are the worker's memory.
  bool in_place = false;
  bool allow_put = false;                     // guests may replace tensors
  bool says_how_it_goes = false;              // also without being the coordinator: someone started it by hand
  std::shared_ptr<const NetworkSplit> split;  // null: every worker computes the whole network
  // Where the worker's micro-batches come from; empty: the run's data.
  std::function<std::unique_ptr<worker::BatchFeed>(const wire::Begin&)> feed;
};

class Task final : public net::Handler, private WorkerDriver::Listener {
 public:
  Task(const RunDefinition& run, const cluster::ClusterSpec& spec, TaskSetup setup, TaskSurroundings around);
  ~Task() override;

  // Joins the run of its own coordinator; after the transport has started.
  void start();
  void on_tick();
  // The user wants the run to end: the coordinator ends it for all, another task leaves.
  void interrupt();
  // Whether the coordinator has begun the run, with this task in it.
  bool begun() const { return begun_; }
  // Set when the task has nothing left to do but to flush what it has sent.
  std::optional<ExitCode> ended() const { return ended_; }
  // Whether it ended because it lost the others and not by the coordinator's word, and the run can go on without it: as
  // another incarnation it may join again.
  bool cut_off() const { return cut_off_; }

  void on_connected(wire::Rank peer, uint64_t incarnation) override;
  void on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) override;
  void on_lost(wire::Rank peer, const std::string& reason) override;
  void on_refused(wire::Rank by, const wire::Refuse& refuse) override;
  void on_unreachable(wire::Rank peer, const std::string& reason) override;

 private:
  void worker_prepared() override;
  void worker_failed(const Error& error) override;

  void open_desk();
  void say_status(Instant now);
  watch::TaskCounters counters() const;
  // To whoever started the process (task_status.cc).
  void say_to_service(Instant now);
  std::string doing() const;
  std::vector<wire::Rank> needed_to_join() const;
  void join_when_connected();
  void say_that_it_waits(Instant now);
  void send_written_shards();
  Status take_shard_part(wire::Rank from, const wire::ShardPart& part, ByteSpan payload);
  void begin(const wire::Begin& begin);
  Status begin_server(const wire::Begin& begin);
  void load_some();
  void say_ready();
  void stop(const wire::Stop& stop);
  void end(ExitCode code, const std::string& reason);
  void end_cut_off(const std::string& reason);
  void fail_run(const Error& error);
  std::string name(wire::Rank rank) const;
  bool holds_parameters(wire::Rank rank) const;
  bool computes_a_stage(wire::Rank rank) const;
  bool computes() const;
  bool says_how_it_goes() const { return setup_.says_how_it_goes && !coordinator_; }
  wire::Rank coordinator_rank() const { return 0; }

  const RunDefinition& run_;
  const cluster::ClusterSpec& spec_;
  TaskSetup setup_;
  TaskSurroundings around_;
  std::vector<wire::Rank> server_ranks_;
  std::optional<uint32_t> server_index_;  // of this task among the servers
  ps::BlockTable table_;
  std::unique_ptr<worker::ParameterStorage> memory_;  // of the worker
  std::unique_ptr<cluster::Coordinator> coordinator_;
  std::unique_ptr<SnapshotWriter> writer_;
  uint64_t coordinator_incarnation_ = 0;  // of a coordinator in another process
  ShardInbox inbox_;                      // at the coordinator
  std::string checkpoint_folder_;         // at the coordinator
  std::unique_ptr<watch::GuestDesk> desk_;
  watch::StatusMeter meter_;
  std::unique_ptr<ps::ShardServer> server_;
  std::unique_ptr<ShardLoader> loader_;  // while the server gets its first version
  int64_t first_version_ = 0;
  bool joined_ = false;
  bool begun_ = false;
  Instant said_at_ = 0;                // when it joined, or last said that it waits
  bool prepared_ = false;              // the worker
  bool working_ = false;               // the driver has the worker
  std::optional<ExitCode> stopped_;    // the coordinator's word
  std::optional<Instant> give_up_at_;  // a server is gone, and the coordinator has not said so yet
  std::string give_up_reason_;
  std::optional<ExitCode> ended_;
  bool cut_off_ = false;
};

}  // namespace dtrain::node
