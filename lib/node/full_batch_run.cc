#include "node/full_batch_run.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "node/data_feed.h"
#include "node/fixed_feed.h"
#include "node/worker_side.h"
#include "optim/lbfgs.h"
#include "ps/chunk_math.h"

namespace dtrain::node {
namespace {

using Progress = optim::Lbfgs::Progress;
using Vectors = std::vector<std::vector<float>>;

constexpr const char* kInterruptedHere = "interrupted";

// The training samples from memory, those of evaluations from the data set.
class Feed final : public worker::BatchFeed {
 public:
  Feed(const RunDefinition& run, uint32_t micro_batches, uint32_t eval_micro_batches,
       std::unique_ptr<worker::BatchFeed> train)
      : train_(std::move(train)), test_(run, micro_batches, eval_micro_batches) {}
  Result<worker::Micro> take(const worker::Work& work, uint32_t micro_batch) override {
    return work.kind == wire::StepKind::kTrain ? train_->take(work, micro_batch) : test_.take(work, micro_batch);
  }

 private:
  std::unique_ptr<worker::BatchFeed> train_;
  DataFeed test_;
};

class FullBatchRun final : private worker::StepPort {
 public:
  FullBatchRun(const RunDefinition& run, const TaskSetup& setup, FileSystem& files, Log& log,
               const std::atomic<int>& interrupts)
      : run_(run),
        parameters_(run.network->parameters()),
        options_(*setup.coordinator),
        events_(*setup.events),
        init_model_(setup.init_model),
        files_(files),
        log_(log),
        interrupts_(interrupts),
        memory_(parameters_),
        statistics_(parameters_),
        pool_(parameters_),
        version_(options_.first_step) {
    begin_.micro_batches = options_.micro_batches;
    begin_.eval_micro_batches = options_.eval_micro_batches;
    begin_.threads = options_.threads > 0 ? options_.threads : setup.threads;
    begin_.step = options_.first_step;
    begin_.checkpoint = options_.checkpoint;
    for (const ParameterInfo& p : parameters_) {
      first_.push_back(elements_);
      if (p.kind == ParameterKind::kTrainable) elements_ += static_cast<size_t>(p.shape.elements());
    }
    gradient_.resize(elements_);
  }

  Status prepare(const TaskSetup& setup);
  // Until the end of the run, or the user's wish; the reason why it ended, where it is not the last step.
  Result<std::string> train();
  // Writes what the run ends with.
  Status finish();
  int64_t version() const { return version_; }
  uint32_t threads() const { return begin_.threads; }

 private:
  Status await_parameter(const worker::Work&, ParameterIndex) override { return {}; }
  Status await_memory(const worker::Work&, const std::function<bool()>&) override {
    return fail(ExitCode::kBug, "gradient memory is held by somebody");
  }
  Status still_wanted(const worker::Work&) override {
    if (interrupted()) return fail(ExitCode::kInterrupted, kInterruptedHere);
    return {};
  }
  void metrics(const worker::Work&, const Metrics& metrics) override { metrics_ = metrics; }
  void gradient(const worker::Work&, const graph::ParameterOutput& sum, std::shared_ptr<const void>) override;

  Status load();
  Status load_checkpoint();
  Status compute(wire::StepKind kind);
  Status evaluate_next();
  Status after_iteration(bool last);
  Status write_checkpoint();
  bool interrupted() const { return interrupts_.load() > 0; }
  size_t size(ParameterIndex p) const {
    return static_cast<size_t>(parameters_[static_cast<size_t>(p)].shape.elements());
  }
  // Calls `f` with each trainable parameter and the place of its elements in a flat vector.
  template <typename F>
  void for_trainable(const F& f) const {
    for (size_t p = 0; p < parameters_.size(); ++p)
      if (parameters_[p].kind == ParameterKind::kTrainable) f(static_cast<ParameterIndex>(p), first_[p]);
  }
  void show(std::span<const float> point);

  const RunDefinition& run_;
  const std::vector<ParameterInfo>& parameters_;
  const cluster::CoordinatorOptions& options_;
  cluster::CoordinatorEvents& events_;
  const std::string init_model_;
  FileSystem& files_;
  Log& log_;
  const std::atomic<int>& interrupts_;
  wire::Begin begin_;
  worker::ParameterStorage memory_;      // what is evaluated
  worker::ParameterStorage statistics_;  // what the last evaluation made of the statistics
  worker::GradientPool pool_;
  std::unique_ptr<Feed> feed_;
  std::optional<worker::StepEngine> engine_;
  std::vector<size_t> first_;  // of each trainable parameter in a flat vector
  size_t elements_ = 0;
  std::vector<float> gradient_;  // of the last evaluation
  Metrics metrics_;
  std::optional<optim::Lbfgs> lbfgs_;
  int64_t version_;
};

Status FullBatchRun::prepare(const TaskSetup& setup) {
  std::unique_ptr<worker::BatchFeed> train;
  if (setup.feed) {
    train = setup.feed(begin_);
  } else {
    DTRAIN_TRY_ASSIGN(train, FixedFeed::load(run_, begin_.micro_batches));
  }
  feed_ = std::make_unique<Feed>(run_, begin_.micro_batches, begin_.eval_micro_batches, std::move(train));
  DTRAIN_TRY_ASSIGN(auto engine, WorkerSide::engine_setup(run_, memory_, begin_));
  engine_.emplace(parameters_, std::move(engine), *feed_, pool_);
  return load();
}

Status FullBatchRun::load() {
  if (!begin_.checkpoint.empty()) return load_checkpoint();
  std::optional<checkpoint::SafetensorsReader> model;
  if (!init_model_.empty()) {
    DTRAIN_TRY_ASSIGN(model, checkpoint::SafetensorsReader::open(files_, init_model_));
  }
  for (ParameterIndex p = 0; p < static_cast<ParameterIndex>(parameters_.size()); ++p) {
    const ParameterInfo& info = parameters_[static_cast<size_t>(p)];
    const std::span<float> values(memory_.at(p), size(p));
    if (model) {
      DTRAIN_TRY(under_code(ExitCode::kUsage, checkpoint::read_model_tensor(*model, info.name, DType::kF32, info.shape,
                                                                            std::as_writable_bytes(values))));
    } else {
      run_.network->initialize(p, run_.spec.seed, 0, values);
    }
  }
  std::vector<float> start(elements_);
  for_trainable([&](ParameterIndex p, size_t first) { std::copy_n(memory_.at(p), size(p), start.begin() + first); });
  lbfgs_.emplace(*run_.optimizer.optimizer->full_batch(), std::move(start));
  return {};
}

Status FullBatchRun::load_checkpoint() {
  DTRAIN_TRY_ASSIGN(const auto reader, checkpoint::LogicalReader::open(files_, begin_.checkpoint));
  const auto read = [&](ParameterIndex p, const std::string& slot, float* into) {
    return reader.read(parameters_[static_cast<size_t>(p)].name, slot, 0,
                       std::as_writable_bytes(std::span(into, size(p))));
  };
  for (ParameterIndex p = 0; p < static_cast<ParameterIndex>(parameters_.size()); ++p)
    DTRAIN_TRY(read(p, "", memory_.at(p)));
  std::vector<float> start(elements_);
  for_trainable([&](ParameterIndex p, size_t first) { std::copy_n(memory_.at(p), size(p), start.begin() + first); });
  const optim::LbfgsOptions& options = *run_.optimizer.optimizer->full_batch();
  lbfgs_.emplace(options, std::move(start));

  Vectors pairs[2];  // s, y
  for (int64_t i = 0; i < options.history; ++i) {
    for (size_t kind = 0; kind < 2; ++kind) {
      std::vector<float>& flat = pairs[kind].emplace_back(elements_);
      Status status;
      for_trainable([&](ParameterIndex p, size_t first) {
        if (status) status = read(p, fmt::format("{}{}", "sy"[kind], i), flat.data() + first);
      });
      DTRAIN_TRY(std::move(status));
    }
    if (std::ranges::all_of(pairs[0].back(), [](float v) { return v == 0.0f; })) {  // so many are there
      for (Vectors& of : pairs) of.pop_back();
      break;
    }
  }
  lbfgs_->restore(std::move(pairs[0]), std::move(pairs[1]));
  return {};
}

void FullBatchRun::show(std::span<const float> point) {
  for_trainable([&](ParameterIndex p, size_t first) { std::copy_n(point.begin() + first, size(p), memory_.at(p)); });
  engine_->forget_versions();
}

void FullBatchRun::gradient(const worker::Work&, const graph::ParameterOutput& sum, std::shared_ptr<const void>) {
  const auto p = static_cast<size_t>(sum.parameter);
  const auto k = static_cast<float>(begin_.micro_batches);
  const bool trainable = parameters_[p].kind == ParameterKind::kTrainable;
  float* const to = (trainable ? gradient_.data() + first_[p] : statistics_.at(sum.parameter)) + sum.first;
  std::transform(sum.values, sum.values + sum.elements, to, [k](float v) { return v / k; });
}

// One Work over everything. Its step is always 0, so that dropout draws the same; versions are forgotten instead.
Status FullBatchRun::compute(wire::StepKind kind) {
  const uint32_t all = kind == wire::StepKind::kTrain ? begin_.micro_batches : begin_.eval_micro_batches;
  return engine_->run({kind, 0, {0, all}}, *this);
}

Status FullBatchRun::evaluate_next() {
  show(lbfgs_->ask());
  return compute(wire::StepKind::kTrain);
}

Result<std::string> FullBatchRun::train() {
  DTRAIN_TRY(evaluate_next());
  if (!std::isfinite(metrics_.mean_loss()))
    return fail(ExitCode::kNotFinite, fmt::format("step {}: the loss is {}", version_, metrics_.mean_loss()));
  if (!ps::all_finite(gradient_))
    return fail(ExitCode::kNotFinite, fmt::format("step {}: the gradient is not finite", version_));
  Progress progress = lbfgs_->tell(metrics_.mean_loss(), gradient_);
  bool first = true;  // where it begins is no step
  for (;;) {
    if (progress == Progress::kIterated || progress == Progress::kConverged) {
      const bool converged = progress == Progress::kConverged;
      const Status done = first ? Status() : after_iteration(converged);
      if (!done && interrupted()) return std::string(kInterruptedHere);
      DTRAIN_TRY(Status(done));
      first = false;
      if (converged) return fmt::format("converged to loss {:.6g} after {} steps", lbfgs_->value(), version_);
    }
    if (progress == Progress::kStuck)
      return fmt::format("no better point than loss {:.6g} can be found after {} steps", lbfgs_->value(), version_);
    if (version_ >= options_.steps) return std::string();
    const Status evaluated = interrupted() ? still_wanted({}) : evaluate_next();
    if (!evaluated && interrupted()) return std::string(kInterruptedHere);
    DTRAIN_TRY(Status(evaluated));
    progress = lbfgs_->tell(metrics_.mean_loss(), gradient_);
  }
}

// The point just evaluated is the new version.
Status FullBatchRun::after_iteration(bool converged) {
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p].kind == ParameterKind::kStatistic)
      std::copy_n(statistics_.at(static_cast<ParameterIndex>(p)), size(static_cast<ParameterIndex>(p)),
                  memory_.at(static_cast<ParameterIndex>(p)));
  ++version_;
  const bool last = converged || version_ >= options_.steps;
  events_.on_step({.step = version_ - 1, .metrics = metrics_, .rate = lbfgs_->step(), .norm = {}, .last = last});
  const auto every = [&](int64_t n) { return n > 0 && version_ % n == 0; };
  if (!last && !options_.checkpoint_folder.empty() && every(options_.checkpoint_every))
    (void)write_checkpoint();  // said; only the last one must be there
  if (begin_.eval_micro_batches > 0 &&
      (last || every(options_.eval_every) || (options_.eval_at && options_.eval_at(version_)))) {
    engine_->forget_versions();
    DTRAIN_TRY(compute(wire::StepKind::kEval));
    events_.on_eval(version_, metrics_);
  }
  return {};
}

// As server 0 of one, each parameter a block. REQUIRES that memory holds the iterate.
Status FullBatchRun::write_checkpoint() {
  const std::vector<std::string> slots = run_.optimizer.optimizer->slot_names();
  const std::vector<float> none(elements_);
  std::vector<checkpoint::ShardBlock> blocks;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const auto index = static_cast<ParameterIndex>(p);
    checkpoint::ShardBlock& block = blocks.emplace_back();
    block.parameter = parameters_[p].name;
    block.value = std::as_bytes(std::span(memory_.at(index), size(index)));
    if (parameters_[p].kind != ParameterKind::kTrainable) continue;
    for (size_t i = 0; i < slots.size(); ++i) {  // s0, y0, s1, …
      const Vectors& of = i % 2 == 0 ? lbfgs_->s() : lbfgs_->y();
      const std::vector<float>& flat = i / 2 < of.size() ? of[i / 2] : none;
      block.slots.emplace_back(slots[i], std::as_bytes(std::span(flat.data() + first_[p], size(index))));
    }
  }
  checkpoint::CheckpointFolder folder(files_, options_.checkpoint_folder, log_);
  const auto written = folder.write_shard(version_, 0, blocks);
  Status status;
  if (!written) {
    status = tl::unexpected(written.error());
    events_.on_snapshot_abandoned(version_, status.error().message);
  } else {
    wire::SnapshotDone done;
    done.version = version_;
    done.file = written->name;
    done.bytes = written->bytes;
    done.sha256 = written->sha256;
    status = events_.on_snapshot_complete(version_, {std::move(done)});
  }
  if (!status) log_.error("there is no checkpoint of step {}: {}", version_, status.error().message);
  return status;
}

Status FullBatchRun::finish() {
  const bool written = version_ == options_.first_step && options_.first_step > 0;
  if (options_.checkpoint_folder.empty() || written || lbfgs_->iterate().empty()) return {};
  show(lbfgs_->iterate());
  return write_checkpoint();
}

}  // namespace

ExitCode run_full_batch(const RunDefinition& run, const TaskSetup& setup, FileSystem& files, Log& log,
                        const std::atomic<int>& interrupts) {
  cluster::CoordinatorEvents& events = *setup.events;
  FullBatchRun full(run, setup, files, log, interrupts);
  const auto end = [&](ExitCode code, const std::string& reason) {
    if (code == ExitCode::kInterrupted) log.info("{}", reason);
    if (code != ExitCode::kDone && code != ExitCode::kInterrupted) log.error("the run ends: {}", reason);
    events.on_stopped(code, reason);
    return code;
  };
  if (const Status ready = full.prepare(setup); !ready) return end(ready.error().code, ready.error().message);
  events.on_begin(setup.coordinator->first_step, full.threads());
  const Result<std::string> trained = full.train();
  if (!trained) return end(trained.error().code, trained.error().message);
  if (const Status written = full.finish(); !written)
    return end(ExitCode::kCheckpoint,
               fmt::format("the last checkpoint, of step {}: {}", full.version(), written.error().message));
  if (*trained == kInterruptedHere)
    return end(ExitCode::kInterrupted,
               fmt::format("interrupted after step {} of {}", full.version(), setup.coordinator->steps));
  if (!trained->empty()) log.info("{}", *trained);
  return end(ExitCode::kDone, "");
}

}  // namespace dtrain::node
