#include "node/threaded_worker.h"

#include <utility>

namespace dtrain::node {

void ThreadedWorker::begin(std::unique_ptr<WorkerSide> worker, Listener& listener) {
  worker_ = std::move(worker);
  listener_ = &listener;
  // Gradient memory comes back on the loop thread, sometimes under the mutex: the news takes the way of a message.
  worker_->pool().on_return([this] {
    post_([this] { wake(std::unique_lock(mutex_)); });
  });
  thread_ = std::thread([this] { compute(); });
}

Status ThreadedWorker::deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  std::unique_lock lock(mutex_);
  const Status status = worker_->on_message(from, message, payload);
  wake(std::move(lock));
  return status;
}

void ThreadedWorker::wake(std::unique_lock<std::mutex> lock) {
  const bool come = awaited_ && (*awaited_)();
  lock.unlock();
  if (come) changed_.notify_one();
}

void ThreadedWorker::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake(std::move(lock));
  if (thread_.joinable()) thread_.join();
}

void ThreadedWorker::compute() {
  auto failed = [this](const Error& error) { post_([this, error] { listener_->worker_failed(error); }); };
  if (const Status status = worker_->prepare(); !status) return failed(status.error());
  post_([this] { listener_->worker_prepared(); });
  while (const std::optional<worker::Work> work = wait_for_work()) {
    began_ = std::chrono::steady_clock::now();
    const Status status = worker_->run(*work, *this);
    took_ = std::chrono::steady_clock::now() - began_ - std::exchange(waited_, {});
    const Locked locked(*this);
    const bool of_use = !stopping_ && !worker_->protocol().cancelled(*work);
    worker_->protocol().finished(*work);
    if (!status && of_use) return failed(status.error());
  }
}

std::optional<worker::Work> ThreadedWorker::wait_for_work() {
  std::unique_lock lock(mutex_);
  std::optional<worker::Work> work;
  const WaitCounted counted(meter_, clock_);
  wait_locked(lock, [&] { return stopping_ || (work = worker_->protocol().next_work()); });
  if (stopping_) return std::nullopt;
  if (work->kind == wire::StepKind::kTrain) meter_.step = work->step;
  worker_->protocol().started(*work);
  return work;
}

bool ThreadedWorker::wait_locked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over,
                                 std::optional<std::chrono::steady_clock::time_point> until) {
  awaited_ = &over;
  bool came = true;
  if (until)
    came = changed_.wait_until(lock, *until, over);
  else
    changed_.wait(lock, over);
  awaited_ = nullptr;
  return came;
}

// No deadline here: the loop thread hears when a peer is lost, and stops this one.
Status ThreadedWorker::wait(const worker::Work& work, const std::function<bool()>& done) {
  return wait_until(work, done, std::nullopt);
}

Status ThreadedWorker::wait_until(const worker::Work& work, const std::function<bool()>& done,
                                  std::optional<std::chrono::steady_clock::time_point> impatient_at) {
  std::unique_lock lock(mutex_);
  bool cancelled = false;
  const WaitCounted counted(meter_, clock_);
  const auto over = [&] { return stopping_ || (cancelled = worker_->protocol().cancelled(work)) || done(); };
  if (impatient_at && !wait_locked(lock, over, impatient_at)) worker_->protocol().hurry();
  wait_locked(lock, over);
  if (stopping_ || cancelled) return fail(ExitCode::kInterrupted, "the work is of no use any more");
  return {};
}

// Fresh parameters are worth half of a work's time.
Status ThreadedWorker::await_parameter(const worker::Work& work, ParameterIndex p) {
  const auto from = std::chrono::steady_clock::now();
  const Status status = wait_until(
      work, [&] { return worker_->protocol().parameter_ready(p, work.step); }, began_ + took_ / 2);
  waited_ += std::chrono::steady_clock::now() - from;
  return status;
}

Status ThreadedWorker::await_memory(const worker::Work& work, const std::function<bool()>& free) {
  return wait(work, free);
}

size_t ThreadedWorker::held_sets(const worker::Work& work) {
  std::lock_guard lock(mutex_);
  return worker_->protocol().held_sets(work);
}

Status ThreadedWorker::pull_rows(const worker::Work& work, std::span<const uint64_t> rows,
                                 std::span<float* const> into) {
  const Locked locked(*this);
  worker_->protocol().pull_rows(work, rows, into);
  return {};
}

Status ThreadedWorker::await_rows(const worker::Work& work) {
  return wait(work, [&] { return worker_->protocol().rows_ready(); });
}

// Not before the micro-batch before the last is with all servers, so that what is under way stays bounded.
Status ThreadedWorker::push_rows(const worker::Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                                 std::span<const float* const> gradients) {
  DTRAIN_TRY(wait(work, [&] { return worker_->protocol().row_pushes() <= worker_->servers(); }));
  const Locked locked(*this);
  worker_->protocol().push_rows(work, micro_batch, rows, gradients);
  return {};
}

// The loop may be waiting in stop(): for the end of an op, not of a whole backward pass.
Status ThreadedWorker::still_wanted(const worker::Work& work) {
  return wait(work, [] { return true; });
}

double ThreadedWorker::rate(const worker::Work&, int64_t step) {
  std::lock_guard lock(mutex_);
  return worker_->protocol().rate(step);
}

void ThreadedWorker::metrics(const worker::Work& work, const Metrics& metrics) {
  if (work.kind == wire::StepKind::kTrain) meter_.samples += static_cast<int64_t>(metrics.samples);
  const Locked locked(*this);
  worker_->protocol().metrics(work, metrics);
}

void ThreadedWorker::gradient(const worker::Work& work, const graph::ParameterOutput& sum,
                              std::shared_ptr<const void> owner) {
  const Locked locked(*this);
  worker_->protocol().gradient(work, {sum.parameter, sum.first, sum.elements, sum.values}, std::move(owner));
}

}  // namespace dtrain::node
