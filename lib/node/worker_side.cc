#include "node/worker_side.h"

#include <omp.h>

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
  setup.compression = {run.compression.gradients, begin.micro_batches, samples};
  setup.coordinator = server_ranks.front();
  setup.server_ranks = std::move(server_ranks);
  setup.micro_batches = begin.micro_batches;
  setup.eval_micro_batches = begin.eval_micro_batches;
  setup.memory.assign(memory.pointers().begin(), memory.pointers().end());
  return setup;
}

}  // namespace

WorkerSide::WorkerSide(const RunDefinition& run, const ps::BlockTable& table, const worker::ParameterStorage& memory,
                       std::vector<wire::Rank> server_ranks, const wire::Begin& begin, wire::Outbox& outbox,
                       std::unique_ptr<worker::BatchFeed> feed, bool uses_gradients_at_once, worker::OpProfile* profile,
                       std::shared_ptr<SharedMemory> shared)
    : run_(run),
      table_(table),
      memory_(memory),
      in_place_(uses_gradients_at_once),
      begin_(begin),
      profile_(profile),
      own_gradients_(needs_no_gradients(run, uses_gradients_at_once, begin.micro_batches)),
      protocol_(
          worker::WorkerProtocol::make(table, protocol_setup(memory, std::move(server_ranks), begin, run), outbox)),
      pool_(table.parameters(),
            own_gradients_ ? worker::ParameterStorage::Of::kStatistics : worker::ParameterStorage::Of::kAll,
            std::move(shared)),
      feed_(std::move(feed)) {}

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

Status WorkerSide::prepare() {
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
