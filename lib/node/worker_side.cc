#include "node/worker_side.h"

#include <omp.h>

namespace dtrain::node {
namespace {

worker::WorkerProtocol::Setup protocol_setup(const worker::ParameterStorage& memory,
                                             std::vector<wire::Rank> server_ranks, const wire::Begin& begin) {
  worker::WorkerProtocol::Setup setup;
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
                       std::unique_ptr<worker::BatchFeed> feed, bool uses_gradients_at_once, worker::OpProfile* profile)
    : run_(run),
      memory_(memory),
      begin_(begin),
      profile_(profile),
      own_gradients_(needs_no_gradients(uses_gradients_at_once, begin.micro_batches)),
      protocol_(table, protocol_setup(memory, std::move(server_ranks), begin), outbox),
      pool_(table.parameters(),
            own_gradients_ ? worker::ParameterStorage::Of::kStatistics : worker::ParameterStorage::Of::kAll),
      feed_(std::move(feed)) {}

Status WorkerSide::prepare() {
  omp_set_num_threads(static_cast<int>(begin_.threads));
  const int64_t micro = run_.spec.train.batch / begin_.micro_batches;
  worker::StepEngine::Setup setup;
  setup.seed = run_.spec.seed;
  setup.micro_batches = begin_.micro_batches;
  setup.eval_micro_batches = begin_.eval_micro_batches;
  setup.profile = profile_;
  setup.values.assign(memory_.pointers().begin(), memory_.pointers().end());
  graph::CompileOptions options;
  options.own_gradients = own_gradients_;
  DTRAIN_TRY_ASSIGN(setup.train, graph::Executable::compile(*run_.network, graph::Mode::kTrain, micro, "cpu", options));
  if (begin_.eval_micro_batches > 0) {
    DTRAIN_TRY_ASSIGN(setup.eval, graph::Executable::compile(*run_.network, graph::Mode::kEval, micro, "cpu"));
  }
  engine_.emplace(run_.network->parameters(), std::move(setup), *feed_, pool_);
  return {};
}

}  // namespace dtrain::node
