#include "worker/engine/stage_engine.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::worker {
namespace {

// Calls merge(left, right) for each node of the tree that ends with this micro-batch, innermost first; `left` and
// `right` are the first micro-batches of its halves. Returns the first one of the largest subtree that ends here.
template <typename Merge>
uint32_t close_subtrees(const Work& work, uint32_t micro_batch, Merge&& merge) {
  ps::Node at{micro_batch, micro_batch + 1};
  while (at != work.node) {
    const ps::Node up = ps::parent(at, work.node.last);
    if (up.last != at.last) break;
    merge(up.first, at.first);
    at = up;
  }
  return at.first;
}

}  // namespace

// Follows one segment of one micro-batch through the executable.
class StageEngine::Follower final : public graph::Observer {
 public:
  Follower(StageEngine& engine, const Work& work, uint32_t micro_batch, StepPort& port)
      : engine_(engine), work_(work), micro_batch_(micro_batch), port_(port), micro_(engine.micro(micro_batch)) {}

  Status need_parameter(ParameterIndex p) override {
    DTRAIN_TRY(port_.await_parameter(work_, p));
    engine_.versions_.note(p, work_.step);
    return {};
  }
  void metrics_ready() override { engine_.add_metrics(work_, micro_batch_, port_); }
  void exported(int which, ByteSpan bytes) override {
    engine_.exchange_.send(micro_batch_, static_cast<size_t>(which), bytes);
  }
  // A running statistic leaves when this task has read all its parameters.
  void ready(const graph::ParameterOutput& out) override {
    if (micro_.forward_done)
      engine_.leave(work_, micro_batch_, out, port_);
    else
      micro_.early.push_back(out);
  }
  Status step_done(int op) override {
    if (op + 1 == engine_.stage_->forward_steps) {
      micro_.forward_done = true;
      for (const graph::ParameterOutput& out : micro_.early) engine_.leave(work_, micro_batch_, out, port_);
      micro_.early.clear();
    }
    return port_.still_wanted(work_);
  }

 private:
  StageEngine& engine_;
  const Work& work_;
  const uint32_t micro_batch_;
  StepPort& port_;
  Micro& micro_;
};

StageEngine::StageEngine(std::span<const ParameterInfo> parameters, Setup setup, BatchFeed& feed, GradientPool& pool,
                         StageExchange& exchange)
    : parameters_(parameters),
      setup_(std::move(setup)),
      feed_(feed),
      pool_(pool),
      exchange_(exchange),
      lanes_(setup_.lanes),
      versions_(parameters, setup_.train.get(), setup_.eval.get()) {}

Status StageEngine::run(const Work& work, StepPort& port) {
  stage_ = &program(work).stage();
  count_ = work.kind == wire::StepKind::kTrain ? setup_.micro_batches : setup_.eval_micro_batches;
  DTRAIN_CHECK(work.node == (ps::Node{0, count_}), "a stage computes whole steps");
  next_.assign(stage_->segments.size(), 0);
  exchange_.begin(work);
  Status status = run_steps(work, port);
  exchange_.end();
  sets_.clear();
  sums_.clear();
  return status;
}

Status StageEngine::run_steps(const Work& work, StepPort& port) {
  while (next_.back() < count_) {
    std::optional<size_t> segment = runnable();
    if (!segment) DTRAIN_TRY(port.await_others(work, [&] { return (segment = runnable()).has_value(); }));
    if (*segment == 0) DTRAIN_TRY(start(work, next_[0], port));
    DTRAIN_TRY(run_segment(work, *segment, port));
    if (++next_[*segment]; *segment + 1 == next_.size()) finish(work, next_.back() - 1);
  }
  return {};
}

std::optional<size_t> StageEngine::runnable() const {
  for (size_t s = next_.size(); s-- > 0;) {
    const uint32_t m = next_[s];
    if (m == count_ || (s > 0 && next_[s - 1] <= m)) continue;
    if (s == 0 && (m >= next_.back() + lanes_.size() || !exchange_.may_start(m))) continue;
    const std::vector<int>& imports = stage_->segments[s].imports;
    if (std::ranges::all_of(imports, [&](int i) { return exchange_.find(m, static_cast<size_t>(i)) != nullptr; }))
      return s;
  }
  return std::nullopt;
}

Status StageEngine::start(const Work& work, uint32_t micro_batch, StepPort& port) {
  const bool training = work.kind == wire::StepKind::kTrain;
  Micro& micro = this->micro(micro_batch);
  micro.forward_done = stage_->forward_steps == 0;
  micro.early.clear();
  const int64_t samples = program(work).micro_batch();
  micro.valid = training ? samples : std::min(samples, setup_.eval_samples - micro_batch * samples);
  if (stage_->reads_sample || stage_->reads_labels) {
    // They are read again in backward, when the feed is further.
    DTRAIN_TRY_ASSIGN(const worker::Micro given, feed_.take(work, micro_batch));
    const auto keep = [](Buffer& to, const void* from, size_t bytes) {
      if (to.size() != bytes) to = Buffer(bytes);
      std::memcpy(to.data(), from, bytes);
    };
    if (stage_->reads_sample) keep(micro.samples, given.samples, setup_.sample_bytes);
    if (stage_->reads_labels) keep(micro.labels, given.labels, setup_.label_bytes);
    micro.valid = given.valid;
  }
  if (!training) return {};
  GradientPool::Lease lease;
  const auto try_it = [&] { return lease || (lease = pool_.try_lease(sets_needed(count_, setup_.lanes))); };
  if (!try_it()) DTRAIN_TRY(port.await_memory(work, try_it));
  sets_[micro_batch] = std::move(lease);
  return {};
}

Status StageEngine::run_segment(const Work& work, size_t segment, StepPort& port) {
  const bool training = work.kind == wire::StepKind::kTrain;
  const uint32_t m = next_[segment];
  Micro& micro = this->micro(m);
  std::vector<const void*> imports;
  for (size_t i = 0; i < stage_->imports.size(); ++i) imports.push_back(exchange_.find(m, i));
  const graph::Feed feed{micro.samples.data(), micro.labels.data(), imports};
  const graph::Binding binding{setup_.values, training ? sets_.at(m)->pointers() : std::span<float* const>(),
                               &micro.metrics};
  graph::Executable& program = this->program(work);
  const ops::RunContext context{setup_.seed, work.step, m * program.micro_batch(), micro.valid};
  Follower follower(*this, work, m, port);
  return program.run_segment(training ? micro.train : micro.eval, segment, feed, binding, context, follower);
}

void StageEngine::leave(const Work& work, uint32_t micro_batch, graph::ParameterOutput out, StepPort& port) {
  const auto n = static_cast<size_t>(out.elements);
  const uint32_t first = close_subtrees(work, micro_batch, [&](uint32_t left, uint32_t) {
    float* sum = sets_.at(left)->at(out.parameter) + out.first;
    ps::add({sum, n}, {out.values, n});
    out.values = sum;
  });
  if (micro_batch + 1 == count_) port.gradient(work, out, sets_.at(first));
}

void StageEngine::add_metrics(const Work& work, uint32_t micro_batch, StepPort& port) {
  sums_[micro_batch] = micro(micro_batch).metrics;
  close_subtrees(work, micro_batch, [&](uint32_t left, uint32_t right) {
    sums_[left] = sums_[left] + sums_[right];
    sums_.erase(right);
  });
  if (micro_batch + 1 == count_) port.metrics(work, sums_.at(0));
}

// The sets of right halves are free again.
void StageEngine::finish(const Work& work, uint32_t micro_batch) {
  close_subtrees(work, micro_batch, [&](uint32_t, uint32_t right) { sets_.erase(right); });
  exchange_.done(micro_batch + 1);
}

}  // namespace dtrain::worker
