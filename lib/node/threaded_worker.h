// Runs the worker of a task of a cluster on a thread of its own, beside the loop that speaks with the others:
// parameters arrive and gradients leave while it computes.
//
// One mutex guards the worker's protocol; both threads take it for a moment at a time. What the compute thread sends is
// posted to the loop, in order (posted_outbox.h). It is woken only by what it waits for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "node/posted_outbox.h"
#include "node/worker_driver.h"
#include "node/worker_meter.h"

namespace dtrain::node {

class ThreadedWorker final : public WorkerDriver, private worker::StepPort {
 public:
  using Post = PostedOutbox::Post;
  // `outbox` is what the worker sends by; `meter` is kept up to date. All that is referred to outlives this object.
  ThreadedWorker(Post post, PostedOutbox& outbox, WorkerMeter& meter, const Clock& clock)
      : post_(std::move(post)), outbox_(outbox), meter_(meter), clock_(clock) {}
  ~ThreadedWorker() override { stop(); }

  void begin(std::unique_ptr<WorkerSide> worker, Listener& listener) override;
  Status deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) override;
  void stop() override;

 private:
  // Holds the mutex, and what is sent until it is free again.
  struct Locked {
    explicit Locked(ThreadedWorker& worker) : hold(worker.outbox_), lock(worker.mutex_) {}
    const PostedOutbox::Hold hold;
    const std::lock_guard<std::mutex> lock;
  };

  void compute();
  std::optional<worker::Work> wait_for_work();
  // Waits under the mutex until `over()`; false if `until` comes first. Both threads ask it, again and again.
  bool wait_locked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over,
                   std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);
  // After a change by the loop: unlocks, and wakes the compute thread if what it waits for has come.
  void wake(std::unique_lock<std::mutex> lock);
  // Waits until `done()`, called under the mutex, holds; an error where the work is of no use any more.
  Status wait(const worker::Work& work, const std::function<bool()>& done);
  Status wait_until(const worker::Work& work, const std::function<bool()>& done,
                    std::optional<std::chrono::steady_clock::time_point> impatient_at);

  Status await_parameter(const worker::Work& work, ParameterIndex p) override;
  Status await_memory(const worker::Work& work, const std::function<bool()>& free) override;
  size_t held_sets(const worker::Work& work) override;
  Status pull_rows(const worker::Work& work, std::span<const uint64_t> rows, std::span<float* const> into) override;
  Status await_rows(const worker::Work& work) override;
  Status push_rows(const worker::Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                   std::span<const float* const> gradients) override;
  Status still_wanted(const worker::Work& work) override;
  double rate(const worker::Work& work, int64_t step) override;
  void metrics(const worker::Work& work, const Metrics& metrics) override;
  void gradient(const worker::Work& work, const graph::ParameterOutput& sum,
                std::shared_ptr<const void> owner) override;

  const Post post_;
  PostedOutbox& outbox_;
  WorkerMeter& meter_;
  const Clock& clock_;
  std::unique_ptr<WorkerSide> worker_;
  Listener* listener_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;                           // under mutex_
  const std::function<bool()>* awaited_ = nullptr;  // under mutex_: what the compute thread waits for
  // When the work in progress was begun, and how long the last one took. Only how patient it is depends on them.
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::duration took_{}, waited_{};
  std::thread thread_;
};

}  // namespace dtrain::node
