// Runs the worker of a one-process run on the loop's own thread: while it computes it delivers the local messages that
// its gradients cause, so that the server updates a block while its gradient is still in the cache.
#pragma once

#include <functional>
#include <memory>

#include "net/memory/local_transport.h"
#include "node/worker_driver.h"

namespace dtrain::node {

class InlineWorker final : public WorkerDriver, private worker::StepPort {
 public:
  // `alive` is called between ops: a step may take longer than anybody waits for a sign of life.
  InlineWorker(net::LocalTransport& transport, std::function<void()> alive)
      : transport_(transport), alive_(std::move(alive)) {}

  void begin(std::unique_ptr<WorkerSide> worker, Listener& listener) override;
  Status deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) override;
  void stop() override { stopping_ = true; }

  // Does the next piece of work, if there is one.
  bool work_one();

 private:
  Status await_parameter(const worker::Work& work, ParameterIndex p) override;
  Status await_memory(const worker::Work& work, const std::function<bool()>& free) override;
  Status still_wanted(const worker::Work& work) override;
  double rate(const worker::Work& work, int64_t step) override;
  Status pull_rows(const worker::Work& work, std::span<const uint64_t> rows, std::span<float* const> into) override;
  Status await_rows(const worker::Work& work) override;
  Status push_rows(const worker::Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                   std::span<const float* const> gradients) override;
  void metrics(const worker::Work& work, const Metrics& metrics) override;
  void gradient(const worker::Work& work, const graph::ParameterOutput& sum,
                std::shared_ptr<const void> owner) override;
  // Delivers messages until `done`; there is nobody else to wait for, so running out of them is a bug or the end.
  Status pump_until(const std::function<bool()>& done);

  net::LocalTransport& transport_;
  const std::function<void()> alive_;
  std::unique_ptr<WorkerSide> worker_;
  Listener* listener_ = nullptr;
  bool prepared_ = false, stopping_ = false;
};

}  // namespace dtrain::node
