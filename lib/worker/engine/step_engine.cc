#include "worker/engine/step_engine.h"

#include "ps/chunk_math.h"

namespace dtrain::worker {

// Follows one micro-batch through the executable: waits for parameters, and as each gradient becomes final adds it to
// the partial sums that it completes. After the node's last micro-batch the sum leaves at once.
class StepEngine::Backward final : public graph::Observer {
 public:
  Backward(StepEngine& engine, const Work& work, StepPort& port, std::span<Partial> partials, const Partial& running,
           const Metrics& metrics, bool last)
      : engine_(engine), work_(work), port_(port), partials_(partials), running_(running), raw_(metrics), last_(last) {
    if (work.kind == wire::StepKind::kTrain) profile_ = engine.setup_.profile;
  }

  Status need_parameter(ParameterIndex p) override {
    DTRAIN_TRY(port_.await_parameter(work_, p));
    engine_.note_version(p, work_.step);
    return {};
  }

  void metrics_ready() override {
    sum_ = raw_;
    for (size_t i = partials_.size(); i-- > 0;) sum_ = partials_[i].metrics + sum_;
    if (last_) port_.metrics(work_, sum_);
    forward_done_ = true;
    for (const graph::ParameterOutput& out : early_) leave(out);
  }

  // A running statistic is final in the middle of the forward pass. It leaves only with the gradients: a node of step t
  // says that every parameter was there at version t, and that the metrics are on their way.
  void ready(const graph::ParameterOutput& out) override {
    if (!running_.gradients) return;
    if (forward_done_)
      leave(out);
    else
      early_.push_back(out);
  }

  void computed(int op) override {
    if (profile_) profile_->computed(op);
  }
  Status step_done(int op) override {
    if (profile_) profile_->done(op);
    return port_.still_wanted(work_);
  }

  const Metrics& sum() const { return sum_; }

 private:
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
  const bool last_;
  OpProfile* profile_ = nullptr;
  bool forward_done_ = false;
  std::vector<graph::ParameterOutput> early_;
  Metrics sum_;
};

StepEngine::StepEngine(std::span<const ParameterInfo> parameters, Setup setup, BatchFeed& feed, GradientPool& pool)
    : parameters_(parameters), setup_(std::move(setup)), feed_(feed), pool_(pool), seen_(parameters.size(), -1) {}

Status StepEngine::run(const Work& work, StepPort& port) {
  std::vector<Partial> partials;
  for (uint32_t m = work.node.first; m < work.node.last; ++m) DTRAIN_TRY(run_micro_batch(work, m, port, partials));
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
  Backward backward(*this, work, port, std::span(partials).last(merges), running, metrics,
                    micro_batch + 1 == work.node.last);
  const graph::Binding binding{setup_.values, training ? running.gradients->pointers() : std::span<float* const>(),
                               &metrics};
  const ops::RunContext context{setup_.seed, work.step, micro_batch * program.micro_batch(), micro.valid};
  OpProfile* profile = training ? setup_.profile : nullptr;
  if (profile) profile->begin(program);
  DTRAIN_TRY(program.run({micro.samples, micro.labels}, binding, context, backward));
  if (profile) profile->end();

  // The subtree that ends here lies in the set of its leftmost micro-batch; the others are free again.
  if (merges > 0) {
    running = std::move(partials[partials.size() - merges]);
    partials.resize(partials.size() - merges);
  }
  running.metrics = backward.sum();
  partials.push_back(std::move(running));
  return {};
}

Result<GradientPool::Lease> StepEngine::lease(const Work& work, StepPort& port) {
  GradientPool::Lease lease;
  auto try_it = [&] { return (lease = pool_.try_lease(sets_needed(work.node.size()))) != nullptr; };
  if (!try_it()) DTRAIN_TRY(port.await_memory(work, try_it));
  return lease;
}

void StepEngine::note_version(ParameterIndex p, int64_t version) {
  int64_t& seen = seen_[static_cast<size_t>(p)];
  if (parameters_[static_cast<size_t>(p)].kind == ParameterKind::kFrozen) version = 0;
  if (seen == version) return;
  seen = version;
  setup_.train->parameter_changed(p);
  if (setup_.eval) setup_.eval->parameter_changed(p);
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
