#include "worker/engine/step_engine.h"

#include <utility>

#include "optim/optimizer_spec.h"
#include "ps/chunk_math.h"

namespace dtrain::worker {

// Follows one micro-batch through the executable: waits for parameters, and as each gradient becomes final adds it to
// the partial sums that it completes. After the node's last micro-batch the sum leaves at once.
class StepEngine::Backward final : public graph::Observer {
 public:
  Backward(StepEngine& engine, const Work& work, StepPort& port, std::span<Partial> partials, const Partial& running,
           const Metrics& metrics, uint32_t micro_batch, bool holds = false)
      : engine_(engine),
        work_(work),
        port_(port),
        partials_(partials),
        running_(running),
        raw_(metrics),
        micro_batch_(micro_batch),
        last_(micro_batch + 1 == work.node.last),
        holds_(holds) {
    if (engine.setup_.rows) tables_left_ = engine.setup_.rows->gradients().size();
    if (work.kind == wire::StepKind::kTrain) profile_ = engine.setup_.profile;
  }

  Status need_parameter(ParameterIndex p) override {
    if (engine_.sparse(p)) return port_.await_rows(work_);
    DTRAIN_TRY(port_.await_parameter(work_, p));
    engine_.versions_.note(p, work_.step);
    return {};
  }

  void metrics_ready() override {
    sum_ = raw_;
    for (size_t i = partials_.size(); i-- > 0;) sum_ = partials_[i].metrics + sum_;
    if (last_) port_.metrics(work_, sum_);
    forward_done_ = true;
    if (!holds_) leave_held();
  }

  // A running statistic is final in the middle of the forward pass. It leaves only with the gradients: a node of step t
  // says that every parameter was there at version t, and that the metrics are on their way.
  void ready(const graph::ParameterOutput& out) override {
    if (!running_.gradients) return;
    if (engine_.sparse(out.parameter)) return table_ready();
    if (forward_done_ && !holds_)
      leave(out);
    else
      held_.push_back(out);
  }

  void computed(int op) override {
    if (profile_) profile_->computed(op);
  }
  Status step_done(int op) override {
    if (profile_) profile_->done(op);
    DTRAIN_TRY(std::exchange(pushed_, {}));
    return port_.still_wanted(work_);
  }

  const Metrics& sum() const { return sum_; }
  std::span<const graph::ParameterOutput> held() const { return held_; }
  void leave_held() {
    for (const graph::ParameterOutput& out : held_) leave(out);
    held_.clear();
  }

 private:
  // The gradients of rows leave together, and by themselves for each micro-batch: which rows it used is its own affair.
  void table_ready() {
    if (--tables_left_ > 0) return;
    const RowLookup& rows = *engine_.setup_.rows;
    const std::vector<const float*> gradients(rows.gradients().begin(), rows.gradients().end());
    pushed_ = port_.push_rows(work_, micro_batch_, rows.rows(), gradients);
  }

  void leave(graph::ParameterOutput out) {
    const auto n = static_cast<size_t>(out.elements);
    const GradientPool::Lease* holder = &running_.gradients;
    for (size_t i = partials_.size(); i-- > 0;) {
      float* left = partials_[i].gradients->at(out.parameter) + out.first;
      ps::add({left, n}, {out.values, n});
      out.values = left;
      holder = &partials_[i].gradients;
    }
    if (last_) port_.gradient(work_, out, *holder);
  }

  StepEngine& engine_;
  const Work& work_;
  StepPort& port_;
  std::span<Partial> partials_;  // those that this micro-batch completes, outermost first
  const Partial& running_;
  const Metrics& raw_;
  const uint32_t micro_batch_;
  const bool last_, holds_;
  size_t tables_left_ = 0;  // whose gradients are not ready
  Status pushed_;
  OpProfile* profile_ = nullptr;
  bool forward_done_ = false;
  std::vector<graph::ParameterOutput> held_;
  Metrics sum_;
};

StepEngine::StepEngine(std::span<const ParameterInfo> parameters, Setup setup, BatchFeed& feed, GradientPool& pool)
    : parameters_(parameters),
      setup_(std::move(setup)),
      feed_(feed),
      pool_(pool),
      versions_(parameters, setup_.train.get(), setup_.eval.get()) {
  if (setup_.optimizer) own_.emplace(parameters_, setup_.optimizer);
  if (!setup_.rows) return;
  size_t table = 0;
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (sparse(static_cast<ParameterIndex>(p))) setup_.values[p] = setup_.rows->values()[table++];
}

Status StepEngine::run(const Work& work, StepPort& port) {
  std::vector<Partial> partials;
  const bool rounds = own_ && work.kind == wire::StepKind::kTrain;
  if (setup_.any_version) versions_.forget();
  accrues_ |= !work.push;
  for (uint32_t m = work.node.first; m < work.node.last; ++m)
    DTRAIN_TRY(rounds ? run_round(work, m, port, partials) : run_micro_batch(work, m, port, partials));
  return {};
}

Status StepEngine::run_micro_batch(const Work& work, uint32_t micro_batch, StepPort& port,
                                   std::vector<Partial>& partials) {
  const bool training = work.kind == wire::StepKind::kTrain;
  graph::Executable& program = training ? *setup_.train : *setup_.eval;
  DTRAIN_TRY_ASSIGN(const Micro micro, feed_.take(work, micro_batch));

  Partial running;
  if (training) {
    DTRAIN_TRY_ASSIGN(running.gradients, lease(work, port));
  }
  Metrics metrics;
  const uint32_t merges = closing(work, micro_batch);
  Backward backward(*this, work, port, std::span(partials).last(merges), running, metrics, micro_batch,
                    training && holds());
  graph::Feed feed{.samples = micro.samples, .labels = micro.labels};
  if (setup_.rows) {
    DTRAIN_TRY(setup_.rows->find(micro.samples, micro.valid));
    DTRAIN_TRY(port.pull_rows(work, setup_.rows->rows(), setup_.rows->values()));
    feed.lookups = setup_.rows->lookups();
  }
  const graph::Binding binding{setup_.values, outputs(running), &metrics};
  const ops::RunContext context{setup_.seed, setup_.same_step ? 0 : work.step, micro_batch * program.micro_batch(),
                                micro.valid};
  OpProfile* profile = training ? setup_.profile : nullptr;
  if (profile) profile->begin(program);
  DTRAIN_TRY(program.run(feed, binding, context, backward));
  if (profile) profile->end();

  if (training && holds() && settle(work, backward.held(), port, running)) backward.leave_held();
  keep(std::move(running), backward.sum(), merges, partials);
  return {};
}

// The subtree that ends here lies in the set of its leftmost micro-batch; the others are free again.
void StepEngine::keep(Partial running, Metrics metrics, uint32_t merges, std::vector<Partial>& partials) {
  if (merges > 0) {
    running = std::move(partials[partials.size() - merges]);
    partials.resize(partials.size() - merges);
  }
  running.metrics = metrics;
  partials.push_back(std::move(running));
}

bool StepEngine::settle(const Work& work, std::span<const graph::ParameterOutput> outputs, StepPort& port,
                        const Partial& running) {
  const auto trainable = [&](const graph::ParameterOutput& out) {
    return parameters_[static_cast<size_t>(out.parameter)].kind == ParameterKind::kTrainable;
  };
  const auto values = [&](const graph::ParameterOutput& out) {
    return std::span(running.gradients->at(out.parameter) + out.first, static_cast<size_t>(out.elements));
  };
  if (setup_.clip_norm) {
    const double factor = optim::clip_factor(gradient_norm(parameters_, outputs), *setup_.clip_norm);
    for (const graph::ParameterOutput& out : outputs)
      if (factor < 1.0 && trainable(out)) ps::scale(values(out), static_cast<float>(factor));
  }
  if (setup_.descends) {
    const double rate = port.rate(work, work.step);
    for (const graph::ParameterOutput& out : outputs) {
      const double own = rate * parameters_[static_cast<size_t>(out.parameter)].rate_multiplier;
      float* const to = setup_.memory[static_cast<size_t>(out.parameter)] + out.first;
      const std::span<float> from = values(out);
      for (size_t i = 0; i < from.size(); ++i)
        to[i] = trainable(out) ? to[i] - static_cast<float>(own) * from[i] : from[i];
    }
  }
  if (accrued_) {  // of statistics the latest counts
    for (const graph::ParameterOutput& out : outputs)
      if (trainable(out))
        ps::add(values(out), {accrued_->at(out.parameter) + out.first, static_cast<size_t>(out.elements)});
    accrued_.reset();
  }
  if (!work.push) accrued_ = running.gradients;
  return work.push;
}

// A round of steps on a copy; what leaves is how far it went. The last run of the program hands over the metrics and
// gradients of the whole round.
Status StepEngine::run_round(const Work& work, uint32_t micro_batch, StepPort& port, std::vector<Partial>& partials) {
  class Step final : public graph::Observer {
   public:
    Step(StepEngine& engine, const Work& work, StepPort& port, bool first)
        : engine_(engine), work_(work), port_(port), first_(first) {}
    Status need_parameter(ParameterIndex p) override {
      if (!first_) return {};
      DTRAIN_TRY(port_.await_parameter(work_, p));
      engine_.own_->load(p, engine_.setup_.values[static_cast<size_t>(p)]);
      engine_.setup_.train->parameter_changed(p);
      return {};
    }
    void ready(const graph::ParameterOutput& out) override { outputs.push_back(out); }
    Status step_done(int) override { return port_.still_wanted(work_); }
    std::vector<graph::ParameterOutput> outputs;

   private:
    StepEngine& engine_;
    const Work& work_;
    StepPort& port_;
    const bool first_;
  };

  graph::Executable& program = *setup_.train;
  Partial running;
  DTRAIN_TRY_ASSIGN(running.gradients, lease(work, port));
  const std::span<float* const> copy = own_->values();
  const std::vector<const float*> values(copy.begin(), copy.end());
  Metrics sum;
  std::vector<graph::ParameterOutput> outputs;
  own_->begin();
  for (int64_t s = 0; s < setup_.own_steps; ++s) {
    const Work own{work.kind, work.step + s, {micro_batch, micro_batch + 1}};
    DTRAIN_TRY_ASSIGN(const Micro micro, feed_.take(own, micro_batch));
    Metrics metrics;
    Step step(*this, work, port, s == 0);
    const graph::Binding binding{values, running.gradients->pointers(), &metrics};
    const ops::RunContext context{setup_.seed, own.step, micro_batch * program.micro_batch(), micro.valid};
    DTRAIN_TRY(program.run({micro.samples, micro.labels}, binding, context, step));
    sum += metrics;
    outputs = std::move(step.outputs);
    const double factor =
        setup_.clip_norm ? optim::clip_factor(gradient_norm(parameters_, outputs), *setup_.clip_norm) : 1.0;
    own_->apply(outputs, s, port.rate(work, own.step), static_cast<float>(factor));
    for (const graph::ParameterOutput& out : outputs) program.parameter_changed(out.parameter);
  }

  const uint32_t merges = closing(work, micro_batch);
  Backward end(*this, work, port, std::span(partials).last(merges), running, sum, micro_batch);
  end.metrics_ready();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].kind == ParameterKind::kFrozen) continue;
    const auto p = static_cast<ParameterIndex>(i);
    own_->result(p, setup_.values[i], running.gradients->at(p));
    end.ready({p, 0, parameters_[i].shape.elements(), running.gradients->at(p)});
  }
  keep(std::move(running), end.sum(), merges, partials);
  return {};
}

std::span<float* const> StepEngine::outputs(const Partial& running) {
  if (!running.gradients) return {};
  const std::span<float* const> dense = running.gradients->pointers();
  if (!setup_.rows) return dense;
  outputs_.assign(dense.begin(), dense.end());
  size_t table = 0;
  for (size_t p = 0; p < outputs_.size(); ++p)
    if (sparse(static_cast<ParameterIndex>(p))) outputs_[p] = setup_.rows->gradients()[table++];
  return outputs_;
}

Result<GradientPool::Lease> StepEngine::lease(const Work& work, StepPort& port) {
  GradientPool::Lease lease;
  const size_t sets = sets_needed(work.node.size()) + setup_.more_sets + port.held_sets(work);
  auto try_it = [&] { return lease || (lease = pool_.try_lease(sets)); };
  if (!try_it()) DTRAIN_TRY(port.await_memory(work, try_it));
  return lease;
}

uint32_t StepEngine::closing(const Work& work, uint32_t micro_batch) const {
  const uint32_t n = work.kind == wire::StepKind::kTrain ? setup_.micro_batches : setup_.eval_micro_batches;
  uint32_t count = 0;
  for (ps::Node at{micro_batch, micro_batch + 1}; at != work.node; ++count) {
    const ps::Node up = ps::parent(at, n);
    if (up.last != at.last) break;
    at = up;
  }
  return count;
}

}  // namespace dtrain::worker
