#include "compute_plan.h"

#include <omp.h>

#include <algorithm>
#include <memory>

#include "graph/executable.h"
#include "node/arithmetic.h"
#include "node/fixed_feed.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::cmd {
namespace {

using sim::scale::ComputePlan;

constexpr int kWarmup = 2, kLeastRuns = 3, kMostRuns = 50;
constexpr int64_t kFewSamples = 2;  // some layers want more than one
constexpr Nanoseconds kMeasureFor = 5 * kSecond;

Result<std::unique_ptr<graph::Executable>> compile(const node::RunDefinition& run, int64_t micro_batch) {
  graph::CompileOptions options;
  options.compute = node::compute_type(run.spec.train);
  return graph::Executable::compile(*run.network, graph::Mode::kTrain, micro_batch, "cpu", options);
}

double flops_of(const graph::Executable& program) {
  double all = 0;
  for (const graph::PlanStep& step : program.steps()) all += step.kernel->flops;
  return all;
}

// Writes down what a run of the program asks for and hands over, and what each op takes.
class Recorder final : public graph::Observer {
 public:
  Recorder(const Clock& clock, graph::Executable& program) : clock_(clock), program_(program) {}

  void begin_run() {
    op_ = 0;
    ops_.clear();
    early_.clear();
    seen_metrics_ = false;
    last_ = clock_.now();
  }
  Status need_parameter(ParameterIndex p) override {
    program_.parameter_changed(p);  // as in every step of a cluster
    op().needs.push_back(p);
    return {};
  }
  void computed(int i) override {
    const Instant now = clock_.now();
    times_.resize(program_.steps().size());
    times_[static_cast<size_t>(i)].push_back(now - last_);
    last_ = now;
  }
  // Running statistics wait for the loss, as in StepEngine.
  void metrics_ready() override {
    seen_metrics_ = true;
    op().metrics = true;
    op().makes = std::move(early_);
    early_.clear();
  }
  void ready(const graph::ParameterOutput& out) override {
    (seen_metrics_ ? op().makes : early_).push_back({out.parameter, out.first, out.elements});
  }
  Status step_done(int) override {
    op();  // also those that nothing is to be said of
    ++op_;
    last_ = clock_.now();
    return {};
  }

  // `time_of` says how long op i takes. Ops that nothing happens between are one.
  template <typename TimeOf>
  ComputePlan plan(const TimeOf& time_of) const {
    ComputePlan plan;
    for (size_t i = 0; i < ops_.size(); ++i) {
      ComputePlan::Op op = ops_[i];
      op.time = time_of(i);
      if (!plan.ops.empty() && op.needs.empty() && !plan.ops.back().metrics && plan.ops.back().makes.empty()) {
        op.needs = std::move(plan.ops.back().needs);
        op.time += plan.ops.back().time;
        plan.ops.pop_back();
      }
      plan.ops.push_back(std::move(op));
    }
    return plan;
  }
  Nanoseconds median(size_t op) {
    std::vector<Nanoseconds>& times = times_[op];
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }
  void forget() { times_.clear(); }

 private:
  ComputePlan::Op& op() {
    if (ops_.size() <= op_) ops_.resize(op_ + 1);
    return ops_[op_];
  }

  const Clock& clock_;
  graph::Executable& program_;
  Instant last_ = 0;
  size_t op_ = 0;
  bool seen_metrics_ = false;
  std::vector<ComputePlan::Piece> early_;
  std::vector<ComputePlan::Op> ops_;  // of the last run
  std::vector<std::vector<Nanoseconds>> times_;
};

}  // namespace

Result<ComputePlan> measure_compute(const node::RunDefinition& run, int64_t micro_batch, int threads) {
  omp_set_num_threads(threads);
  DTRAIN_TRY_ASSIGN(const auto program, compile(run, micro_batch));
  const auto& parameters = run.network->parameters();
  const worker::ParameterStorage values(parameters), outputs(parameters);
  for (ParameterIndex p = 0; static_cast<size_t>(p) < parameters.size(); ++p)
    run.network->initialize(p, run.spec.seed, 0,
                            {values.at(p), static_cast<size_t>(parameters[static_cast<size_t>(p)].shape.elements())});
  const auto micro_batches = static_cast<uint32_t>(run.spec.train.batch / micro_batch);
  DTRAIN_TRY_ASSIGN(const auto feed, node::FixedFeed::load(run, micro_batches));
  DTRAIN_TRY_ASSIGN(const worker::Micro micro, feed->take({}, 0));
  const std::vector<const float*> pointers(values.pointers().begin(), values.pointers().end());
  Metrics metrics;
  const graph::Binding binding{pointers, outputs.pointers(), &metrics};
  SteadyClock clock;
  Recorder recorder(clock, *program);
  const Instant begin = clock.now();
  for (int i = 0; i < kWarmup + kMostRuns; ++i) {
    if (i >= kWarmup + kLeastRuns && clock.now() - begin > kMeasureFor) break;
    if (i == kWarmup) recorder.forget();
    recorder.begin_run();
    DTRAIN_TRY(program->run({micro.samples, micro.labels}, binding, {run.spec.seed, i, 0, micro.valid}, recorder));
  }
  return recorder.plan([&](size_t op) { return recorder.median(op); });
}

Result<ComputePlan> assume_compute(const node::RunDefinition& run, int64_t micro_batch, Nanoseconds time) {
  // The shares of the ops hardly depend on the number of samples.
  DTRAIN_TRY_ASSIGN(const auto program, compile(run, std::min(micro_batch, kFewSamples)));
  SteadyClock clock;
  Recorder recorder(clock, *program);
  recorder.begin_run();
  DTRAIN_TRY(program->rehearse(recorder));
  const double all = flops_of(*program);
  if (all == 0) return fail(ExitCode::kUsage, "the network's ops have no FLOPs to share the time by");
  return recorder.plan([&](size_t op) {
    return static_cast<Nanoseconds>(static_cast<double>(time) * program->steps()[op].kernel->flops / all);
  });
}

Result<double> training_flops(const node::RunDefinition& run) {
  DTRAIN_TRY_ASSIGN(const auto program, compile(run, kFewSamples));
  return flops_of(*program) / static_cast<double>(kFewSamples);
}

}  // namespace dtrain::cmd
