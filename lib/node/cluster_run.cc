#include "node/cluster_run.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "config/canonical.h"
#include "net/asio/asio_transport.h"
#include "net/handshake.h"
#include "node/resident_memory.h"
#include "node/threaded_worker.h"
#include "ops/cpu/fingerprint.h"
#include "proto-free-wire/frame.h"

namespace dtrain::node {
namespace {

// Whether two tasks have anything to say to each other: everybody to the coordinator, workers to servers, and where
// each computes a part of the network to each other.
bool talk(const cluster::ClusterSpec& spec, bool split, const cluster::Task& a, const cluster::Task& b) {
  if (a == spec.coordinator() || b == spec.coordinator()) return true;
  auto works = [&](const cluster::Task& t) { return spec.role_of(t) == cluster::Role::kWorker; };
  return (works(a) && spec.serves(b)) || (works(b) && spec.serves(a)) || (split && works(a) && works(b));
}

Result<wire::Hello> hello(const RunDefinition& run, const cluster::ClusterSpec& spec, const TaskSetup& setup,
                          const ClusterRunOptions& options) {
  wire::Hello hello;
  hello.program = DTRAIN_VERSION;
  hello.incarnation = setup.incarnation;
  hello.run_digest = run.run_digest;
  hello.data_digest = run.data_digest;
  // Where layers lie is the cluster's affair: the same run file may say otherwise on a resume, but not to some tasks
  // only.
  std::string cluster = cluster::identity(spec);
  if (setup.split) cluster += fmt::format(" {}", fmt::join(setup.split->split.task_of_layer, ","));
  hello.cluster_digest = sha256(cluster);
  // All servers begin with the same model or all with drawn values; a worker does not need to know.
  hello.init_digest = setup.init_digest;
  if (hello.init_digest == Digest{} && spec.serves(spec.task_of(static_cast<int>(setup.self))))
    hello.init_digest = sha256("drawn");
  if (options.computes && !run.spec.train.allow_different_arithmetic) {
    DTRAIN_TRY_ASSIGN(hello.fingerprint, ops::cpu::fingerprint());
  }
  return hello;
}

// Who may connect: a task of the same run, and to the coordinator one whose arithmetic is that of the first worker that
// it met: there all workers meet.
std::function<std::optional<wire::Refuse>(const wire::Hello&)> admission(wire::Hello ours, bool coordinates) {
  ours.protocol = wire::kProtocolVersion;
  return [ours = std::move(ours), coordinates](const wire::Hello& theirs) mutable {
    auto refuse = net::first_difference(ours, theirs);
    if (!refuse && coordinates && ours.fingerprint.empty()) ours.fingerprint = theirs.fingerprint;
    return refuse;
  };
}

net::AsioConfig config(const cluster::ClusterSpec& spec, const TaskSetup& setup, const ClusterRunOptions& options,
                       const config::TrainSpec& train, wire::Hello hello) {
  auto duration = [](double seconds) { return static_cast<Nanoseconds>(seconds * kSecond); };
  net::AsioConfig c;
  c.self = setup.self;
  c.check = admission(hello, setup.coordinator.has_value());
  c.hello = std::move(hello);
  const cluster::Task& self = spec.task_of(static_cast<int>(setup.self));
  for (wire::Rank rank = 0; rank < spec.tasks().size(); ++rank) {
    const cluster::Task& task = spec.tasks()[rank];
    const cluster::TaskAddress& address = spec.address_of(task);
    c.endpoints.push_back({cluster::to_string(task), address.host, address.port});
    if (rank == setup.self || !talk(spec, setup.split != nullptr, self, task)) continue;
    if (rank < setup.self)
      c.dial.push_back(rank);  // the later one dials
    else if (!setup.coordinator && spec.listed(task) && !spec.min_workers())
      c.awaited.push_back(rank);  // the coordinator says itself whom it waits for
  }
  // A copy, since a task that joins again listens again.
  for (int fd : options.listen_fds) c.listen_fds.push_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  c.guests_from_elsewhere = options.allow_guests;
  c.proof = options.proof;
  c.timeouts.peer = duration(train.peer_timeout);
  // A second incarnation is refused when the first one is heard, which must be before it gives its handshake up.
  c.timeouts.heartbeat = std::min(c.timeouts.peer / 4, c.timeouts.handshake / 4);
  c.timeouts.start = c.timeouts.refused = duration(train.start_timeout);
  return c;
}

// Memory for what goes to other tasks on this host; null where there are none, or no such memory.
std::shared_ptr<SharedMemory> shared_memory(const net::AsioConfig& config, Log& log) {
  const std::string& own = config.endpoints[config.self].host;
  const auto here = std::count_if(config.endpoints.begin(), config.endpoints.end(),
                                  [&](const net::Endpoint& endpoint) { return endpoint.host == own; });
  if (here < 2) return nullptr;
  Result<std::shared_ptr<SharedMemory>> memory = SharedMemory::create();
  if (memory) return std::move(*memory);
  log.info("tensors to tasks on this host are copied: {}", memory.error().message);
  return nullptr;
}

watch::TaskCounters counters(const WorkerMeter& meter, const net::Traffic& traffic, Instant now) {
  watch::TaskCounters c;
  c.step = meter.step;
  c.samples = meter.samples;
  c.waited = meter.waited_until(now);
  c.sent = traffic.sent;
  c.received = traffic.received;
  c.queued = traffic.queued;
  c.resident = resident_bytes();
  return c;
}

// From joining the run to leaving it.
struct Life {
  ExitCode code = ExitCode::kDone;
  bool cut_off = false;  // might join again
  Nanoseconds length = 0;
};

Life live(const RunDefinition& run, const cluster::ClusterSpec& spec, TaskSetup setup, net::AsioTransport& transport,
          std::shared_ptr<SharedMemory> memory, FileSystem& files, const Clock& clock, Log& log,
          const std::atomic<int>& interrupts, Nanoseconds interrupt_grace) {
  constexpr Nanoseconds kTick = 50 * kMillisecond, kFarewell = 3 * kSecond;
  const Instant born = clock.now();
  const bool coordinates = setup.coordinator.has_value();
  const auto post = [&](std::function<void()> f) { transport.post(std::move(f)); };
  PostedOutbox outbox(transport, post);
  WorkerMeter meter;
  ThreadedWorker worker(post, outbox, meter, clock);
  std::function<void()> check;  // looks after the task, and ends the loop with it
  Task task(run, spec, std::move(setup),
            {transport, outbox, worker, files, clock, log, [&] { transport.post([&] { check(); }); }, memory,
             [&] { return counters(meter, transport.traffic(), clock.now()); }});

  bool leaving = false;
  int interrupted = 0;
  std::optional<Instant> asked;  // to end, together with the others
  check = [&] {
    if (leaving) return;
    if (interrupted < interrupts.load() && interrupt_grace > 0 && !coordinates && task.begun() && !asked) {
      asked = clock.now();
      log.info("asked to end: gives the coordinator {} s to end the run for all", interrupt_grace / kSecond);
    }
    if (!asked || clock.now() - *asked >= interrupt_grace)
      for (; interrupted < interrupts.load(); ++interrupted) task.interrupt();
    task.on_tick();
    if (!task.ended()) return;
    leaving = true;
    transport.drain_and_close(kFarewell, [&] { transport.stop(); });
  };
  std::function<void()> tick = [&] {
    check();
    if (!leaving) transport.after(kTick, tick);
  };
  transport.start(task);
  transport.post([&] { task.start(); });
  transport.post(tick);
  transport.run();
  worker.stop();
  return {*task.ended(), task.cut_off(), clock.now() - born};
}

}  // namespace

Result<ExitCode> run_in_cluster(const RunDefinition& run, const cluster::ClusterSpec& spec, TaskSetup setup,
                                const ClusterRunOptions& options, FileSystem& files, const Clock& clock, Log& log,
                                const std::atomic<int>& interrupts) {
  // A host that answers has no run any more where nobody listens; one that does not may be back soon.
  constexpr Nanoseconds kRefused = 1500 * kMillisecond;
  constexpr int kShortLives = 3;  // in a row: it is cut off for a reason
  bool again = false;
  for (int short_lives = 0;;) {
    DTRAIN_TRY_ASSIGN(wire::Hello mine, hello(run, spec, setup, options));
    net::AsioConfig with = config(spec, setup, options, run.spec.train, std::move(mine));
    if (again) {
      with.timeouts.start = std::min(with.timeouts.start, with.timeouts.peer);
      with.timeouts.refused = std::min(with.timeouts.start, kRefused);
    }
    const Nanoseconds peer_timeout = with.timeouts.peer;
    const std::shared_ptr<SharedMemory> memory = shared_memory(with, log);
    with.memory = memory;
    DTRAIN_TRY_ASSIGN(const auto transport, net::AsioTransport::create(std::move(with), log));
    if (!again && !options.proof.secret && transport->open_to_other_hosts())
      log.info("has no secret: whoever reaches port {} can take part in the run; --secret_file keeps strangers out",
               transport->port());
    const Life life =
        live(run, spec, setup, *transport, memory, files, clock, log, interrupts, options.interrupt_grace);
    short_lives = life.length < peer_timeout ? short_lives + 1 : 0;
    if (!life.cut_off || short_lives == kShortLives || interrupts.load() > 0) return life.code;
    log.info("joins the run again, if it still goes on");
    again = true;
    setup.incarnation += 2;  // odd, as the first one
  }
}

}  // namespace dtrain::node
