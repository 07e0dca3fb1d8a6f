#include "node/inline_worker.h"

namespace dtrain::node {

void InlineWorker::begin(std::unique_ptr<WorkerSide> worker, Listener& listener) {
  worker_ = std::move(worker);
  listener_ = &listener;
}

Status InlineWorker::deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  return worker_->protocol().on_message(from, message, payload);
}

bool InlineWorker::work_one() {
  if (!worker_ || stopping_) return false;
  if (!prepared_) {
    prepared_ = true;
    if (const Status status = worker_->prepare(); !status) {
      listener_->worker_failed(status.error());
    } else {
      listener_->worker_prepared();
    }
    return true;
  }
  worker::WorkerProtocol& protocol = worker_->protocol();
  const std::optional<worker::Work> work = protocol.next_work();
  if (!work) return false;
  protocol.started(*work);
  const Status status = worker_->run(*work, *this);
  protocol.finished(*work);
  if (!status && !stopping_) listener_->worker_failed(status.error());
  return true;
}

Status InlineWorker::await_parameter(const worker::Work& work, ParameterIndex p) {
  return pump_until([&] { return worker_->protocol().parameter_ready(p, work.step); });
}

Status InlineWorker::await_memory(const worker::Work&, const std::function<bool()>& free) { return pump_until(free); }

Status InlineWorker::pull_rows(const worker::Work& work, std::span<const uint64_t> rows, std::span<float* const> into) {
  worker_->protocol().pull_rows(work, rows, into);
  return {};
}

Status InlineWorker::await_rows(const worker::Work&) {
  return pump_until([&] { return worker_->protocol().rows_ready(); });
}

Status InlineWorker::push_rows(const worker::Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                               std::span<const float* const> gradients) {
  worker_->protocol().push_rows(work, micro_batch, rows, gradients);
  return pump_until([&] { return worker_->protocol().row_pushes() == 0; });
}

Status InlineWorker::pump_until(const std::function<bool()>& done) {
  while (!done()) {
    if (stopping_) return fail(ExitCode::kInterrupted, "the run has ended");
    DTRAIN_CHECK(transport_.pump_one(), "the only task waits for itself");
  }
  return {};
}

// There is nobody who would take it away.
Status InlineWorker::still_wanted(const worker::Work&) {
  alive_();
  return {};
}

double InlineWorker::rate(const worker::Work&, int64_t step) { return worker_->protocol().rate(step); }

void InlineWorker::metrics(const worker::Work& work, const Metrics& metrics) {
  worker_->protocol().metrics(work, metrics);
}

void InlineWorker::gradient(const worker::Work& work, const graph::ParameterOutput& sum,
                            std::shared_ptr<const void> owner) {
  worker_->protocol().gradient(work, {sum.parameter, sum.first, sum.elements, sum.values}, std::move(owner));
  // Gradients may lie in memory that the next op writes: they are used up here.
  const Status used = pump_until([&] { return worker_->protocol().unanswered(work) == 0; });
  DTRAIN_CHECK(used || stopping_, "a gradient is not used");
}

}  // namespace dtrain::node
