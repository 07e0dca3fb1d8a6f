#include "node/solo_run.h"

#include <condition_variable>
#include <mutex>

#include "node/inline_worker.h"

namespace dtrain::node {
namespace {

// Lets the loop sleep until the snapshot writer has something to say.
class Bell {
 public:
  void ring() {
    {
      std::lock_guard lock(mutex_);
      rung_ = true;
    }
    changed_.notify_all();
  }
  void wait(Nanoseconds at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(at_most), [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

}  // namespace

ExitCode run_solo(const RunDefinition& run, TaskSetup setup, FileSystem& files, const Clock& clock, Log& log,
                  const std::atomic<int>& interrupts) {
  constexpr Nanoseconds kTick = 100 * kMillisecond;
  setup.in_place = true;
  const cluster::ClusterSpec spec = cluster::ClusterSpec::local();
  net::LocalTransport transport;
  InlineWorker worker(transport, [service = setup.service, &clock] {
    if (service) service->beat(clock.now());
  });
  Bell bell;
  Task task(run, spec, std::move(setup), {transport, transport, worker, files, clock, log, [&bell] { bell.ring(); }});
  transport.start(task);
  task.start();
  int interrupted = 0;
  Instant ticked = clock.now();
  while (!task.ended()) {
    const bool delivered = transport.pump() > 0;
    const bool busy = worker.work_one() || delivered;
    for (; interrupted < interrupts.load(); ++interrupted) task.interrupt();
    if (busy && clock.now() - ticked < kTick) continue;
    ticked = clock.now();
    task.on_tick();
    if (!busy && !task.ended() && transport.pump() == 0) bell.wait(kTick);
  }
  return *task.ended();
}

}  // namespace dtrain::node
