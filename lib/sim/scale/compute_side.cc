#include "sim/scale/compute_side.h"

#include <algorithm>
#include <numeric>

namespace dtrain::sim::scale {
namespace {

worker::WorkerProtocol::Setup protocol_setup(const World& world) {
  worker::WorkerProtocol::Setup setup;
  setup.server_ranks.resize(world.model.servers());
  std::iota(setup.server_ranks.begin(), setup.server_ranks.end(), 0);
  setup.micro_batches = world.micro_batches;
  setup.memory = world.memory.pointers();
  setup.rule = world.model.rule;
  return setup;
}

}  // namespace

ComputeSide::ComputeSide(World& world, uint32_t host, wire::Outbox& outbox)
    : world_(world), host_(host), protocol_(worker::WorkerProtocol::make(world.table, protocol_setup(world), outbox)) {}

void ComputeSide::wake(Instant at) {
  world_.events.push({std::max(at, world_.now), Event::Kind::kCompute, host_, ++event_});
}

Status ComputeSide::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload, Instant then) {
  DTRAIN_TRY(protocol_->on_message(from, message, payload));
  switch (state_) {
    case State::kComputing:
      break;
    case State::kAwaitsParameter:
      if (protocol_->parameter_ready(awaited_, work_->step) || protocol_->cancelled(*work_)) {
        state_ = State::kComputing;
        wake(then);
      }
      break;
    case State::kAwaitsMemory:
      if (protocol_->unanswered(*before_) == 0) {
        state_ = State::kIdle;
        wake(then);
      }
      break;
    case State::kIdle:
      // Work comes with an assignment, or with another step.
      if (protocol_->step() != step_ || std::holds_alternative<wire::Assign>(message)) wake(then);
      break;
  }
  return {};
}

void ComputeSide::set_computing(bool computing) {
  if (computing == computing_) return;
  computing_ = computing;
  world_.computing += computing ? 1 : UINT32_MAX;
}

bool ComputeSide::begin_work() {
  step_ = protocol_->step();
  const std::optional<worker::Work> next = protocol_->next_work();
  if (!next) return false;
  // One set of gradients for works of one micro-batch, as the engine's pool has it.
  if (next->node.size() == 1 && before_ && protocol_->unanswered(*before_) > 0) {
    state_ = State::kAwaitsMemory;
    return false;
  }
  protocol_->started(*next);
  work_ = next;
  pass_ = 0;
  op_ = 0;
  made_ = false;
  state_ = State::kComputing;
  return true;
}

void ComputeSide::go_on(uint32_t event) {
  if (event != event_) return;
  if (state_ == State::kIdle && !begin_work()) return;
  if (state_ == State::kComputing) run();
}

// Until time has to pass or a parameter is missing.
void ComputeSide::run() {
  for (;;) {
    if (protocol_->cancelled(*work_)) pass_ = work_->node.size();
    if (pass_ == work_->node.size()) {
      set_computing(false);
      protocol_->finished(*work_);
      before_ = work_;
      work_.reset();
      state_ = State::kIdle;
      if (!begin_work()) return;
      continue;
    }
    const ComputePlan::Op& op = plan().ops[op_];
    if (!made_) {
      if (pass_ == 0) {
        for (const ParameterIndex p : op.needs) {
          if (protocol_->parameter_ready(p, work_->step)) continue;
          awaited_ = p;
          state_ = State::kAwaitsParameter;
          set_computing(false);
          return;
        }
      }
      set_computing(true);
      Nanoseconds time = op.time;
      const uint32_t cores = world_.model.shared_cores;
      if (cores > 0 && world_.computing > cores) time = time * world_.computing / cores;
      made_ = true;
      busy_ += op.time;
      if (time > 0) return wake(world_.now + time);
    }
    made_ = false;
    if (pass_ + 1 == work_->node.size()) hand_over(op);
    if (++op_ < plan().ops.size()) continue;
    op_ = 0;
    ++pass_;
  }
}

void ComputeSide::hand_over(const ComputePlan::Op& op) {
  if (op.metrics) protocol_->metrics(*work_, Metrics{.loss = 1.0, .samples = 1.0});
  for (const ComputePlan::Piece& piece : op.makes)
    protocol_->gradient(*work_,
                        {piece.parameter, piece.first, piece.elements,
                         world_.memory.pointers()[static_cast<size_t>(piece.parameter)] + piece.first},
                        nullptr);
}

}  // namespace dtrain::sim::scale
