#include "sim/sim_worker.h"

#include <fmt/format.h>

#include <cstring>

namespace dtrain::sim {
namespace {

worker::WorkerProtocol::Setup setup(const Scenario& s, Values& memory) {
  worker::WorkerProtocol::Setup out;
  for (uint32_t i = 0; i < s.servers; ++i) out.server_ranks.push_back(i);
  out.micro_batches = s.micro_batches;
  out.eval_micro_batches = s.eval_micro_batches;
  for (auto& values : memory) out.memory.push_back(values.data());
  out.rule = s.rule;
  return out;
}

Values empty_values(const std::vector<ParameterInfo>& parameters) {
  Values out;
  for (const ParameterInfo& p : parameters) out.emplace_back(static_cast<size_t>(p.shape.elements()), 0.0f);
  return out;
}

Metrics metrics_of(float c, const worker::Work& work, ps::Node node) {
  if (node.size() == 1) return micro_metrics(c, work.kind, work.step, node.first);
  const uint32_t middle = ps::split(node);
  Metrics out = metrics_of(c, work, {node.first, middle});
  return out += metrics_of(c, work, {middle, node.last});
}

}  // namespace

SimWorker::SimWorker(const World& world, wire::Rank rank, uint64_t life)
    : world_(world),
      rank_(rank),
      draw_(world.scenario.seed, "worker", static_cast<uint32_t>(rank * 1'000 + life)),
      memory_(empty_values(world.scenario.parameters)),
      protocol_(
          worker::WorkerProtocol::make(world.table, setup(world.scenario, memory_), world.network.transport(rank))) {}

Status SimWorker::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  wire::Message given = message;
  if (auto* assign = std::get_if<wire::Assign>(&given);
      assign != nullptr && draw_.percent(world_.scenario.speculate_percent)) {
    assign->first = 0;
    assign->last =
        assign->kind == wire::StepKind::kTrain ? world_.scenario.micro_batches : world_.scenario.eval_micro_batches;
  }
  DTRAIN_TRY(protocol_->on_message(from, given, payload));
  pump();
  return {};
}

void SimWorker::later(void (SimWorker::*what)()) {
  const uint64_t task = ++task_;
  const Nanoseconds took = draw_.between(1, world_.scenario.compute_most / kMicrosecond) * kMicrosecond;
  const Instant at = world_.clock.now() + took * (rank_ == world_.scenario.slow_rank ? world_.scenario.slow_factor : 1);
  world_.network.at(at, [this, what, task, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired() || task != task_) return;
    if (frozen_) {
      later(what);
    } else {
      (this->*what)();
    }
  });
}

// Whether it has the sets that the fold over its node needs, as far as it may make them.
bool SimWorker::leased() {
  if (work_->kind != wire::StepKind::kTrain) return true;
  const size_t needed = ps::fold_depth(work_->node.size()) + 1, most = needed + protocol_->held_sets(*work_);
  while (leases_.size() < needed) {
    if (sets_->free > 0)
      --sets_->free;
    else if (sets_->made < most)
      ++sets_->made;
    else
      return false;
    leases_.emplace_back(std::shared_ptr<const void>(
        sets_.get(), [this, sets = sets_, alive = std::weak_ptr<char>(alive_)](const void*) {
          ++sets->free;
          if (!alive.expired()) wake(world_.clock.now());
        }));
  }
  return true;
}

void SimWorker::wake(Instant at) {
  world_.network.at(at, [this, at, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    frozen_ ? wake(at + kMillisecond) : pump();
  });
}

void SimWorker::pump() {
  if (work_ && protocol_->cancelled(*work_) && draw_.percent(70)) leave();  // or it is noticed later
  if (!work_) {
    work_ = protocol_->next_work();
    if (!work_) return;
    protocol_->started(*work_);
    computing_ = false;
  }
  if (computing_) return;
  for (uint32_t p = 0; p < memory_.size(); ++p) {
    if (!protocol_->parameter_ready(static_cast<ParameterIndex>(p), work_->step)) {
      if (protocol_->cancelled(*work_)) later(&SimWorker::compute);  // it will never be
      return;
    }
  }
  if (!leased()) {
    if (protocol_->cancelled(*work_)) later(&SimWorker::compute);
    return;
  }
  computing_ = true;
  read_ = memory_;
  later(&SimWorker::compute);
}

void SimWorker::check_memory() {
  for (size_t p = 0; computing_ && p < read_.size(); ++p)
    if (std::memcmp(memory_[p].data(), read_[p].data(), read_[p].size() * sizeof(float)) != 0)
      world_.fail(fmt::format("parameter {} changed under a work of step {}", p, work_->step));
}

void SimWorker::leave() {
  check_memory();  // also a cancelled work keeps its parameters until it is left
  const worker::Work work = *work_;
  ++task_;
  computing_ = false;
  work_.reset();
  gradients_.clear();
  leases_.clear();
  protocol_->finished(work);
}

std::vector<float> SimWorker::sum(ParameterIndex p, float c, ps::Node node) {
  std::vector<float> out;
  if (node.size() == 1) {
    micro_gradient(world_.scenario.parameters, memory_, c, work_->step, node.first, p, out);
    return out;
  }
  const uint32_t middle = ps::split(node);
  out = sum(p, c, {node.first, middle});
  const std::vector<float> right = sum(p, c, {middle, node.last});
  for (size_t i = 0; i < out.size(); ++i) out[i] += right[i];
  return out;
}

void SimWorker::compute() {
  if (protocol_->cancelled(*work_)) {
    leave();
    pump();
    return;
  }
  const Sabotage sabotage = world_.scenario.sabotage;
  if (sabotage == Sabotage::kOverwritten && world_.sabotage_once()) memory_.back().back() += 1.0f;
  const float c = probe(memory_);
  check_memory();
  protocol_->metrics(*work_, metrics_of(c, *work_, work_->node));
  gradients_.clear();
  if (work_->kind == wire::StepKind::kTrain) {
    ps::Node node = work_->node;
    const bool wrong = sabotage == Sabotage::kWrongMicroBatch && world_.sabotage_once();
    if (wrong) node = {node.first + 1, node.last + 1};
    const bool flat = sabotage == Sabotage::kFlatSum && node.size() >= 4 && world_.sabotage_once();
    const bool twice = sabotage == Sabotage::kCountedTwice && world_.sabotage_once();
    for (uint32_t i = 0; i < memory_.size(); ++i) {
      const auto p = static_cast<ParameterIndex>(i);
      if (world_.scenario.parameters[i].kind == ParameterKind::kFrozen) {
        gradients_.emplace_back();
        continue;
      }
      auto values = std::make_shared<std::vector<float>>(sum(p, c, flat ? ps::Node{node.first, node.first + 1} : node));
      const auto add_leaf = [&](uint32_t k) {
        const std::vector<float> leaf = sum(p, c, {k, k + 1});
        for (size_t e = 0; e < leaf.size(); ++e) (*values)[e] += leaf[e];
      };
      for (uint32_t k = node.first + 1; flat && k < node.last; ++k) add_leaf(k);
      if (twice) add_leaf(node.first);
      // Who holds values holds the set that they lie in.
      const auto* const held = values.get();
      gradients_.emplace_back(std::make_shared<std::pair<decltype(values), std::shared_ptr<const void>>>(
                                  std::move(values), leases_.front()),
                              held);
    }
  }
  hand_in();
}

// From the last parameter to the first, as a backward pass does.
void SimWorker::hand_in() {
  if (!gradients_.empty() && !protocol_->cancelled(*work_)) {
    const std::shared_ptr<const std::vector<float>> values = std::move(gradients_.back());
    gradients_.pop_back();
    read_.pop_back();
    if (values)
      protocol_->gradient(
          *work_,
          {static_cast<ParameterIndex>(gradients_.size()), 0, static_cast<int64_t>(values->size()), values->data()},
          values);
    if (draw_.percent(50)) {
      hand_in();
    } else {
      later(&SimWorker::hand_in);
    }
    return;
  }
  leave();
  pump();
}

}  // namespace dtrain::sim
