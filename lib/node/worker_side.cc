#include "node/worker_side.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "node/arithmetic.h"

namespace dtrain::node {
namespace {

worker::WorkerProtocol::Setup protocol_setup(const worker::ParameterStorage& memory,
                                             std::vector<wire::Rank> server_ranks, const wire::Begin& begin,
                                             const RunDefinition& run) {
  worker::WorkerProtocol::Setup setup;
  setup.rule = run.rule;
  // After local steps it is differences of parameters that are pushed, whatever the samples.
  const double samples = run.local_steps() ? 1.0 : static_cast<double>(run.spec.train.batch) / begin.micro_batches;
  const int64_t epoch = run.train ? run.train->size() : 0, batch = run.spec.train.batch;
  setup.compression = {.method = run.compression.gradients,
                       .micro_batches = begin.micro_batches,
                       .samples = samples,
                       .run_steps = run.spec.train.total_steps(epoch),
                       .epoch_steps = (epoch + batch - 1) / batch};
  setup.coordinator = server_ranks.front();
  setup.server_ranks = std::move(server_ranks);
  setup.micro_batches = begin.micro_batches;
  setup.eval_micro_batches = begin.eval_micro_batches;
  setup.memory.assign(memory.pointers().begin(), memory.pointers().end());
  return setup;
}

// Of which parameters gradients need memory.
std::vector<bool> held(const worker::ParameterStorage& memory, bool own_gradients,
                       std::span<const ParameterInfo> parameters) {
  std::vector<bool> held;
  for (size_t p = 0; p < parameters.size(); ++p)
    held.push_back(memory.pointers()[p] && (!own_gradients || parameters[p].kind == ParameterKind::kStatistic));
  return held;
}

}  // namespace

WorkerSide::WorkerSide(const RunDefinition& run, const ps::BlockTable& table, const worker::ParameterStorage& memory,
                       std::vector<wire::Rank> server_ranks, const wire::Begin& begin, wire::Outbox& outbox,
                       std::unique_ptr<worker::BatchFeed> feed, bool uses_gradients_at_once, worker::OpProfile* profile,
                       std::shared_ptr<SharedMemory> shared, std::shared_ptr<const NetworkSplit> split, wire::Rank self)
    : run_(run),
      table_(table),
      memory_(memory),
      in_place_(uses_gradients_at_once),
      begin_(begin),
      profile_(profile),
      own_gradients_(needs_no_gradients(run, uses_gradients_at_once, begin.micro_batches)),
      protocol_(
          worker::WorkerProtocol::make(table, protocol_setup(memory, std::move(server_ranks), begin, run), outbox)),
      pool_(table.parameters(), held(memory, own_gradients_, table.parameters()), std::move(shared)),
      feed_(std::move(feed)),
      split_(std::move(split)),
      task_(split_ ? split_->task_of(self) : 0) {
  if (split_) exchange_.emplace(static_cast<uint32_t>(split_->split.tasks) + 1, outbox);
}

Result<worker::StepEngine::Setup> WorkerSide::engine_setup(const RunDefinition& run,
                                                           const worker::ParameterStorage& memory,
                                                           const wire::Begin& begin, bool own_gradients) {
  omp_set_num_threads(static_cast<int>(begin.threads));
  const int64_t micro = run.spec.train.batch / begin.micro_batches;
  worker::StepEngine::Setup setup;
  setup.seed = run.spec.seed;
  setup.micro_batches = begin.micro_batches;
  setup.eval_micro_batches = begin.eval_micro_batches;
  setup.values.assign(memory.pointers().begin(), memory.pointers().end());
  graph::CompileOptions options;
  options.own_gradients = own_gradients;
  options.compute = compute_type(run.spec.train);
  DTRAIN_TRY_ASSIGN(setup.train, graph::Executable::compile(*run.network, graph::Mode::kTrain, micro, "cpu", options));
  if (begin.eval_micro_batches > 0) {
    DTRAIN_TRY_ASSIGN(setup.eval, graph::Executable::compile(*run.network, graph::Mode::kEval, micro, "cpu", options));
  }
  return setup;
}

Status WorkerSide::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  const bool of_stages =
      std::holds_alternative<wire::StageValue>(message) || std::holds_alternative<wire::StageDone>(message);
  if (!of_stages) return protocol_->on_message(from, message, payload);
  if (exchange_) return exchange_->on_message(from, message, payload);
  return fail(ExitCode::kBug, fmt::format("task {} sent a value of a stage, but the network is not split", from));
}

Status WorkerSide::prepare_stage() {
  omp_set_num_threads(static_cast<int>(begin_.threads));
  const int64_t micro = run_.spec.train.batch / begin_.micro_batches;
  worker::StageEngine::Setup setup;
  setup.seed = run_.spec.seed;
  setup.micro_batches = begin_.micro_batches;
  setup.eval_micro_batches = begin_.eval_micro_batches;
  setup.eval_samples = run_.test ? run_.test->size() : 0;
  setup.values.assign(memory_.pointers().begin(), memory_.pointers().end());
  const auto bytes = [&](const Shape& sample, DType type) {
    return static_cast<size_t>(micro * sample.elements()) * size_of(type);
  };
  setup.sample_bytes = bytes(run_.network->input(), run_.network->input_dtype());
  setup.label_bytes = bytes(run_.network->labels().shape, run_.network->labels().dtype());
  graph::CompileOptions options;
  options.compute = compute_type(run_.spec.train);
  options.split = &split_->split;
  options.task = task_;
  DTRAIN_TRY_ASSIGN(setup.train, graph::Executable::compile(*run_.network, graph::Mode::kTrain, micro, "cpu", options));
  worker::StageLinks eval;
  if (begin_.eval_micro_batches > 0) {
    DTRAIN_TRY_ASSIGN(setup.eval, graph::Executable::compile(*run_.network, graph::Mode::kEval, micro, "cpu", options));
    eval = links_of(setup.eval->stage(), *split_, begin_.eval_micro_batches);
  }
  exchange_->connect(links_of(setup.train->stage(), *split_, begin_.micro_batches), std::move(eval));
  setup.lanes = stage_lanes(*setup.train, *split_, task_, begin_.micro_batches);
  stage_engine_.emplace(run_.network->parameters(), std::move(setup), *feed_, pool_, *exchange_);
  return {};
}

Status WorkerSide::prepare() {
  if (split_) return prepare_stage();
  DTRAIN_TRY_ASSIGN(auto setup, engine_setup(run_, memory_, begin_, own_gradients_));
  setup.profile = profile_;
  const consistency::Mode& mode = run_.rule->mode();
  const optim::OptimizerSpec& own = run_.local_steps() ? run_.worker_optimizer : run_.optimizer;
  if (mode.single || run_.local_steps()) setup.clip_norm = own.clip_norm;
  setup.same_step = run_.optimizer.optimizer->full_batch() != nullptr;
  setup.own_steps = mode.stride;
  setup.optimizer = run_.worker_optimizer.optimizer;
  setup.any_version = mode.newest;
  // In place the parameters are the servers', which move them.
  setup.descends = mode.fetch_every > 1 && !in_place_;
  setup.memory.assign(memory_.pointers().begin(), memory_.pointers().end());
  setup.more_sets = more_sets(mode);
  if (!table_.rows().empty())
    setup.rows = std::make_unique<worker::RowLookup>(*run_.network, table_.rows(),
                                                     run_.spec.train.batch / begin_.micro_batches, true);
  engine_.emplace(run_.network->parameters(), std::move(setup), *feed_, pool_);
  return {};
}

}  // namespace dtrain::node
