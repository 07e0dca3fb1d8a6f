// The compute thread of a simulated worker: takes works from the real WorkerProtocol and lets the plan's time pass,
// waiting for parameters where the plan needs them and handing gradients in where it makes them. One thread.
#pragma once

#include <memory>
#include <optional>

#include "sim/scale/world.h"
#include "worker/worker_protocol.h"

namespace dtrain::sim::scale {

class ComputeSide {
 public:
  ComputeSide(World& world, uint32_t host, wire::Outbox& outbox);

  // A message for the protocol. Whatever it wakes goes on at `then`.
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload, Instant then);
  // The event that it pushed last is due. May send.
  void go_on(uint32_t event);

  Nanoseconds busy() const { return busy_; }

 private:
  enum class State { kIdle, kComputing, kAwaitsParameter, kAwaitsMemory };

  void wake(Instant at);
  bool begin_work();
  void run();
  void hand_over(const ComputePlan::Op& op);
  void set_computing(bool computing);
  const ComputePlan& plan() const { return world_.model.compute; }

  World& world_;
  const uint32_t host_;
  std::unique_ptr<worker::WorkerProtocol> protocol_;
  State state_ = State::kIdle;
  std::optional<worker::Work> work_, before_;  // under way; the last one, whose gradients may still be wanted
  uint32_t pass_ = 0;                          // micro-batch of the work
  size_t op_ = 0;
  bool made_ = false;  // the op has had its time
  ParameterIndex awaited_ = -1;
  int64_t step_ = -1;   // of the protocol when it was last asked for work
  uint32_t event_ = 0;  // the last one pushed: older ones are void
  bool computing_ = false;
  Nanoseconds busy_ = 0;
};

}  // namespace dtrain::sim::scale
