#include "node/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/handshake.h"
#include "node/data_feed.h"
#include "node/full_batch_feed.h"
#include "node/server_pool.h"
#include "node/sparse_tables.h"
#include "proto-free-wire/codec.h"
#include "proto-free-wire/receiver.h"

namespace dtrain::node {
namespace {

// How long a task waits for the coordinator's word when a server is gone.
constexpr Nanoseconds kWordFromCoordinator = 5 * kSecond;

std::vector<wire::Rank> ranks_of(const cluster::ClusterSpec& spec, const std::vector<cluster::Task>& tasks) {
  std::vector<wire::Rank> ranks;
  for (const cluster::Task& task : tasks) ranks.push_back(static_cast<wire::Rank>(spec.rank_of(task)));
  return ranks;
}

// The most that a server's shard can hold of sparse tables: all their rows.
uint64_t row_bytes(const ps::RowSpace& space, size_t slots) {
  uint64_t bytes = 0;
  for (const ps::RowSpace::Table& t : space.tables())
    bytes += t.rows * (sizeof(int64_t) + static_cast<uint64_t>(t.width) * sizeof(float) * (1 + slots));
  return bytes;
}

}  // namespace

Task::Task(const RunDefinition& run, const cluster::ClusterSpec& spec, TaskSetup setup, TaskSurroundings around)
    : run_(run),
      spec_(spec),
      setup_(std::move(setup)),
      around_(around),
      server_ranks_(ranks_of(spec, spec.servers())),
      table_(run.network->parameters(), static_cast<uint32_t>(server_ranks_.size())) {
  for (size_t i = 0; i < server_ranks_.size(); ++i)
    if (server_ranks_[i] == setup_.self) server_index_ = static_cast<uint32_t>(i);
  if (around_.counters) open_desk();
  if (computes() && setup_.split)
    memory_ = std::make_unique<worker::ParameterStorage>(
        table_.parameters(),
        graph::parameters_of(*run.network, setup_.split->split, setup_.split->task_of(setup_.self)));
  else if (computes())
    memory_ = std::make_unique<worker::ParameterStorage>(table_.parameters());
  if (!setup_.coordinator) return;
  cluster::CoordinatorOptions& options = *setup_.coordinator;
  for (wire::Rank rank = 0; rank < spec.tasks().size(); ++rank) {
    const cluster::Task& task = spec.tasks()[rank];
    options.tasks.push_back({cluster::to_string(task),
                             spec.listed(task) ? cluster::to_string(spec.address_of(task)) : "not listed",
                             spec.role_of(task) == cluster::Role::kWorker, holds_parameters(rank), !spec.listed(task)});
  }
  options.min_workers = static_cast<uint32_t>(spec.min_workers().value_or(0));
  options.start_grace = static_cast<Nanoseconds>(spec.start_grace() * kSecond);
  options.split = setup_.split != nullptr;
  checkpoint_folder_ = options.checkpoint_folder;
  coordinator_ = std::make_unique<cluster::Coordinator>(std::move(options), table_, around_.transport, around_.log,
                                                        *setup_.events, around_.clock.now());
  if (!desk_) return;
  desk_->coordinate(
      [this] {
        return watch::RunPosition{coordinator_->step(), coordinator_->rated(), coordinator_->steps(),
                                  coordinator_->phase(), coordinator_->ending()};
      },
      [this](int64_t version, const std::string& tensor) { setup_.events->on_put(version, tensor); });
}

Task::~Task() = default;

void Task::open_desk() {
  watch::GuestDeskSetup desk{.run = run_.spec.name,
                             .self = setup_.self,
                             .coordinator = coordinator_rank(),
                             .tasks = {},
                             .server_ranks = server_ranks_,
                             .server_index = server_index_,
                             .allow_put = setup_.allow_put};
  for (const cluster::Task& task : spec_.tasks()) {
    const auto rank = static_cast<wire::Rank>(spec_.rank_of(task));
    desk.tasks.push_back({rank, cluster::to_string(task), cluster::to_string(spec_.address_of(task)),
                          spec_.role_of(task) == cluster::Role::kWorker, holds_parameters(rank)});
  }
  desk_ = std::make_unique<watch::GuestDesk>(std::move(desk), table_, around_.transport, around_.log);
}

// A server that computes nothing has the step that it stands at.
void Task::say_status(Instant now) {
  if (!joined_ || stopped_ || ended_ || !meter_.due(now)) return;
  around_.transport.send(coordinator_rank(), meter_.measure(counters(), now));
}

watch::TaskCounters Task::counters() const {
  watch::TaskCounters counters = around_.counters();
  if (!computes() && server_ && server_->mode().lockstep) counters.step = server_->version();
  return counters;
}

void Task::start() { join_when_connected(); }

// A worker joins when it can reach every server, and of a split network the other stages: what it says to one that is
// not connected would be lost.
void Task::join_when_connected() {
  if (joined_) return;
  for (const wire::Rank rank : needed_to_join())
    if (!around_.transport.connected(rank)) return;
  joined_ = true;
  said_at_ = around_.clock.now();
  around_.transport.send(coordinator_rank(),
                         wire::Join{computes(), server_index_.has_value(), setup_.threads, setup_.incarnation});
}

std::vector<wire::Rank> Task::needed_to_join() const {
  std::vector<wire::Rank> ranks{coordinator_rank()};
  auto add = [&ranks](const std::vector<wire::Rank>& more) {
    for (const wire::Rank rank : more)
      if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  if (computes()) add(server_ranks_);
  if (computes() && setup_.split) add(setup_.split->ranks);
  return ranks;
}

void Task::on_tick() {
  const Instant now = around_.clock.now();
  if (loader_ && !stopped_ && !ended_) load_some();
  if (writer_) send_written_shards();
  if (coordinator_) {
    coordinator_->on_tick(now);
    if (stopped_ && coordinator_->finished()) ended_ = stopped_;
  }
  if (desk_) {
    desk_->on_tick(now);
    say_status(now);
  }
  if (joined_ && !begun_ && !coordinator_) say_that_it_waits(now);
  say_to_service(now);
  if (give_up_at_ && now >= *give_up_at_) end_cut_off(give_up_reason_);
}

void Task::say_that_it_waits(Instant now) {
  constexpr Nanoseconds kOften = 5 * kSecond;
  if (now - said_at_ < kOften) return;
  said_at_ = now;
  around_.log.info("waiting for {} to begin the run: not all tasks have joined it", name(coordinator_rank()));
}

void Task::send_written_shards() {
  for (const WrittenShard& shard : writer_->take_done()) {
    const wire::Rank rank = server_ranks_[shard.server];
    if (shard.bytes) {
      send_shard(around_.transport, coordinator_rank(), shard.done.version, shard.bytes);
    } else if (rank == setup_.self) {
      around_.transport.send(coordinator_rank(), shard.done);
    } else if (const Status status = coordinator_->on_message(rank, shard.done); !status) {
      fail_run(status.error());
    }
  }
}

Status Task::take_shard_part(wire::Rank from, const wire::ShardPart& part, ByteSpan payload) {
  constexpr uint64_t kHeader = 64u << 20;
  const auto server =
      static_cast<uint32_t>(std::find(server_ranks_.begin(), server_ranks_.end(), from) - server_ranks_.begin());
  if (!holds_parameters(from) || checkpoint_folder_.empty() || !writer_)
    return fail(ExitCode::kPeerLost, "sends a shard that nobody asked for");
  if (!coordinator_->awaits_shard(from, part.version)) return {};  // the snapshot was given up
  const uint64_t most =
      static_cast<uint64_t>(table_.server_elements(server)) * sizeof(float) * (1 + run_.optimizer.optimizer->slots()) +
      row_bytes(table_.rows(), run_.optimizer.optimizer->slots()) + kHeader;
  DTRAIN_TRY_ASSIGN(std::optional<std::string> file, inbox_.add(from, part, payload, most));
  if (file) writer_->put(checkpoint_folder_, part.version, server, std::move(*file));
  return {};
}

void Task::interrupt() {
  if (coordinator_) return coordinator_->interrupt();
  if (server_index_ || ended_) return end(ExitCode::kInterrupted, "interrupted");
  if (working_) around_.driver.stop();
  working_ = false;
  around_.log.info("leaves the run");
  if (setup_.service) setup_.service->stopping();
  around_.transport.send(coordinator_rank(), wire::Stopped{});
  ended_ = ExitCode::kInterrupted;
}

void Task::on_connected(wire::Rank peer, uint64_t incarnation) {
  if (desk_) desk_->on_connected(peer, around_.clock.now());
  if (peer == coordinator_rank()) coordinator_incarnation_ = incarnation;
  if (coordinator_) coordinator_->on_connected(peer);
  join_when_connected();
}

void Task::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  if (ended_ && !coordinator_) return;
  Status status;
  if (wire::is_guest(from)) {
    if (desk_) status = desk_->on_message(from, message, payload, around_.clock.now());
    if (status) return;
    around_.log.debug("a guest is cut off: {}", status.error().message);
    return around_.transport.disconnect(from, status.error().message);
  }
  switch (wire::receiver(wire::type_of(message))) {
    case wire::Receiver::kCoordinator:
      if (!coordinator_) break;
      coordinator_->set_now(around_.clock.now());
      if (const auto* part = std::get_if<wire::ShardPart>(&message))
        status = take_shard_part(from, *part, payload);
      else
        status = coordinator_->on_message(from, message);
      if (desk_) desk_->on_progress(around_.clock.now());
      break;
    case wire::Receiver::kServer:
      if (server_) status = server_->on_message(from, message, payload);
      break;
    case wire::Receiver::kWorker:
      if (working_) status = around_.driver.deliver(from, message, payload);
      break;
    case wire::Receiver::kDesk:
      if (desk_) status = desk_->on_message(from, message, payload, around_.clock.now());
      break;
    case wire::Receiver::kConnection:
      break;
    case wire::Receiver::kTask:
      if (from != coordinator_rank()) break;
      if (const auto* m = std::get_if<wire::Begin>(&message)) begin(*m);
      if (const auto* m = std::get_if<wire::Stop>(&message)) stop(*m);
      break;
  }
  if (status) return;
  if (from == setup_.self) return fail_run(status.error());
  around_.log.warning("{} is cut off: {}", name(from), status.error().message);
  around_.transport.disconnect(from, status.error().message);
}

void Task::begin(const wire::Begin& begin) {
  if (server_ || working_ || stopped_) return;
  if (begin.micro_batches == 0 || begin.threads == 0 || run_.spec.train.batch % begin.micro_batches != 0)
    return fail_run({ExitCode::kBug, fmt::format("the coordinator begins with {} micro-batches and {} threads",
                                                 begin.micro_batches, begin.threads)});
  begun_ = true;
  if (setup_.service) setup_.service->ready();
  if (says_how_it_goes())
    around_.log.info("the run {}; {} reports on it",
                     begin.step > 0 ? fmt::format("goes on after step {}", begin.step) : "begins",
                     name(coordinator_rank()));
  if (server_index_)
    if (const Status begun = begin_server(begin); !begun) return fail_run(begun.error());
  if (!computes()) return;
  std::unique_ptr<worker::BatchFeed> feed;
  if (setup_.feed)
    feed = setup_.feed(begin);
  else if (run_.optimizer.optimizer->full_batch())
    feed = std::make_unique<FullBatchFeed>(run_, begin.micro_batches, begin.eval_micro_batches);
  else
    feed = std::make_unique<DataFeed>(run_, begin.micro_batches, begin.eval_micro_batches);
  working_ = true;
  around_.driver.begin(
      std::make_unique<WorkerSide>(run_, table_, *memory_, server_ranks_, begin, around_.worker_outbox, std::move(feed),
                                   setup_.in_place, setup_.profile, around_.memory, setup_.split, setup_.self),
      *this);
}

Status Task::begin_server(const wire::Begin& begin) {
  writer_ = std::make_unique<SnapshotWriter>(table_, *server_index_, run_.optimizer.optimizer->slot_names(),
                                             around_.files, around_.log, around_.wake);
  writer_->set_coordinator(coordinator_incarnation_);
  ps::ShardServerOptions options;
  options.micro_batches = begin.micro_batches;
  options.norms = run_.norm_rounds();
  options.rule = run_.rule;
  options.pulls = run_.compression.pulls;
  options.vectors = run_.optimizer.optimizer->full_batch() != nullptr;
  options.pool_bytes = server_pool_bytes(begin.micro_batches);
  options.coordinator = coordinator_rank();
  options.memory = around_.memory;
  options.initial_rows = initial_rows(run_);
  options.micro_batch_rows = rows_used(run_, run_.spec.train.batch / begin.micro_batches);
  if (setup_.in_place) options.in_place.assign(memory_->pointers().begin(), memory_->pointers().end());
  server_ = std::make_unique<ps::ShardServer>(table_, *server_index_, std::move(options), *run_.optimizer.optimizer,
                                              around_.transport, *writer_);
  DTRAIN_TRY_ASSIGN(
      loader_, ShardLoader::open(run_, table_, *server_index_, {begin.checkpoint, setup_.init_model}, around_.files));
  first_version_ = begin.step;
  around_.wake();
  return {};
}

void Task::load_some() {
  const Result<bool> more = loader_->load_some(*server_);
  if (more && *more) return around_.wake();
  loader_.reset();
  if (!more) return fail_run(more.error());
  server_->start(first_version_);
  if (desk_ && !setup_.in_place) desk_->serve(*server_);
  say_ready();
}

void Task::worker_prepared() {
  prepared_ = true;
  say_ready();
}

// When the last of its roles is.
void Task::say_ready() {
  if (!loader_ && (prepared_ || !computes())) around_.transport.send(coordinator_rank(), wire::Ready{});
}

void Task::worker_failed(const Error& error) { fail_run(error); }

// The coordinator ends the run for all, and says so to this task too.
void Task::fail_run(const Error& error) {
  if (stopped_ || ended_) return;
  around_.log.error("{}", error.message);
  around_.transport.send(coordinator_rank(), wire::Failure{static_cast<uint8_t>(error.code), error.message});
}

void Task::stop(const wire::Stop& stop) {
  if (stopped_) return;
  stopped_ = static_cast<ExitCode>(stop.exit_code);
  if (setup_.service) setup_.service->stopping();
  if (working_) around_.driver.stop();
  working_ = false;
  around_.transport.send(coordinator_rank(), wire::Stopped{});
  if (coordinator_) return;  // leaves last
  if (*stopped_ == ExitCode::kInterrupted)
    around_.log.info("{} ended the run: {}", name(coordinator_rank()), stop.reason);
  else if (*stopped_ != ExitCode::kDone)
    around_.log.error("{} ended the run: {}", name(coordinator_rank()), stop.reason);
  else if (says_how_it_goes())
    around_.log.info("the run is done");
  ended_ = stopped_;
}

void Task::end(ExitCode code, const std::string& reason) {
  if (ended_) return;
  if (working_) around_.driver.stop();
  working_ = false;
  around_.log.error("{}", reason);
  ended_ = code;
}

void Task::end_cut_off(const std::string& reason) {
  cut_off_ = !server_index_ && !setup_.split && !stopped_ && !ended_;
  end(ExitCode::kPeerLost, reason);
}

void Task::on_lost(wire::Rank peer, const std::string& reason) {
  if (desk_) desk_->on_lost(peer);
  if (ended_ || wire::is_guest(peer)) return;
  if (server_) server_->peer_lost(peer);
  if (coordinator_) return coordinator_->on_lost(peer, reason);
  if (stopped_) return;
  const std::string lost = fmt::format("lost {}: {}", name(peer), reason);
  if (!begun_) {  // it is dialled again, or comes again; there is nothing yet that could be lost
    around_.log.warning("{}", lost);
    joined_ = false;
    return;
  }
  if (peer == coordinator_rank()) return end_cut_off(lost);
  if (!(holds_parameters(peer) || computes_a_stage(peer)) || give_up_at_) return;
  give_up_at_ = around_.clock.now() + kWordFromCoordinator;
  give_up_reason_ = lost;
}

void Task::on_refused(wire::Rank by, const wire::Refuse& refuse) {
  const cluster::TaskAddress& address = spec_.address_of(spec_.task_of(static_cast<int>(by)));
  end(refuse.exit_code == 0 ? ExitCode::kUsage : static_cast<ExitCode>(refuse.exit_code),
      net::explain(refuse, {cluster::to_string(spec_.task_of(static_cast<int>(by))), address.host, address.port}));
}

void Task::on_unreachable(wire::Rank, const std::string& reason) { end(ExitCode::kPeerLost, reason); }

std::string Task::name(wire::Rank rank) const {
  const cluster::Task& task = spec_.task_of(static_cast<int>(rank));
  if (!spec_.listed(task)) return cluster::to_string(task);
  return fmt::format("{} at {}", cluster::to_string(task), cluster::to_string(spec_.address_of(task)));
}

bool Task::holds_parameters(wire::Rank rank) const {
  return std::find(server_ranks_.begin(), server_ranks_.end(), rank) != server_ranks_.end();
}

bool Task::computes_a_stage(wire::Rank rank) const {
  return setup_.split && computes() && std::ranges::find(setup_.split->ranks, rank) != setup_.split->ranks.end();
}

bool Task::computes() const {
  return spec_.role_of(spec_.task_of(static_cast<int>(setup_.self))) == cluster::Role::kWorker;
}

}  // namespace dtrain::node
