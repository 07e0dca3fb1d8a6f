#include "node/memory_estimate.h"

#include <algorithm>

#include "graph/executable.h"
#include "node/arithmetic.h"
#include "node/server_pool.h"
#include "node/worker_side.h"
#include "ps/admission.h"
#include "ps/tree.h"
#include "worker/engine/own_steps.h"
#include "worker/engine/parameter_storage.h"
#include "worker/engine/step_engine.h"

namespace dtrain::node {
namespace {

Result<MemoryEstimate> estimate(const RunDefinition& run, const ps::BlockTable& table, uint32_t micro_batches,
                                uint32_t workers, bool alone) {
  graph::CompileOptions options;
  options.own_gradients = WorkerSide::needs_no_gradients(run, alone, micro_batches);
  options.compute = compute_type(run.spec.train);
  DTRAIN_TRY_ASSIGN(const auto program,
                    graph::Executable::compile(*run.network, graph::Mode::kTrain, run.spec.train.batch / micro_batches,
                                               "cpu", options));
  MemoryEstimate memory;
  memory.activations = static_cast<double>(program->arena_bytes());
  const auto set = static_cast<double>(worker::ParameterStorage::bytes(table.parameters()));
  memory.parameters = set + static_cast<double>(program->persistent_bytes());
  const consistency::Mode& mode = run.rule->mode();
  size_t sets = mode.single ? worker::StepEngine::sets_needed(1) : 0;
  for (uint32_t w = 0; w < workers && !mode.single; ++w) {
    const ps::Node range = ps::share(w, workers, micro_batches);
    size_t before = 0;  // nodes of the share that servers may not have taken yet
    for (const ps::Node& node : ps::maximal_nodes(range.first, range.last, micro_batches))
      sets = std::max(sets, before++ + worker::StepEngine::sets_needed(node.size()));
  }
  memory.gradients = options.own_gradients ? static_cast<double>(worker::ParameterStorage::bytes(
                                                 table.parameters(), worker::ParameterStorage::Of::kStatistics))
                                           : set * static_cast<double>(sets + WorkerSide::more_sets(mode));
  if (run.local_steps())
    memory.own_steps =
        static_cast<double>(worker::OwnSteps::bytes(table.parameters(), *run.worker_optimizer.optimizer));

  // Values and gradient of one micro-batch, and the gradients of two that servers have not taken.
  const auto micro = run.spec.train.batch / micro_batches;
  memory.rows = 4.0 * static_cast<double>(worker::RowLookup::bytes(*run.network, micro, false));
  // At worst all micro-batches lie here before two that are siblings do; and what the last step replaced.
  const double all_rows = static_cast<double>(worker::RowLookup::bytes(*run.network, run.spec.train.batch, false));
  const double pool = static_cast<double>(server_pool_bytes(micro_batches)) + 3 * all_rows / table.servers();
  for (uint32_t s = 0; s < table.servers(); ++s) {
    double moving = 0, trainable = 0, frozen = 0;  // bytes
    for (uint32_t id : table.of_server(s)) {
      const ps::Block& block = table.block(id);
      const double bytes = static_cast<double>(block.elements) * sizeof(float);
      (block.frozen() ? frozen : moving) += bytes;
      if (block.kind == ParameterKind::kTrainable) trainable += bytes;
    }
    const double versions = alone ? 0 : 2 * moving + frozen;
    const double slots = trainable * static_cast<double>(run.optimizer.optimizer->slots());
    const bool norms = run.optimizer.clip_norm || run.optimizer.optimizer->norm_need() != optim::NormNeed::kNone;
    const double every =
        mode.needed > 1 ? static_cast<double>(ps::Admission::smallest_pool(table, s, micro_batches, false)) : 0;
    const double sums = std::max(pool, every) + (norms ? trainable : 0);
    // Roots of the steps that workers are ahead and of the one that was ahead before; or what each worker has read.
    double behind = mode.window > 1 ? static_cast<double>(mode.window) * moving : 0;
    if (mode.delay_compensation > 0 && !alone) behind += workers * moving;
    if (versions + slots + sums + behind <= memory.server()) continue;
    memory.versions = versions;
    memory.slots = slots;
    memory.sums = sums;
    memory.behind = behind;
  }
  return memory;
}

}  // namespace

Result<MemoryEstimate> estimate_memory(const RunDefinition& run, const ps::BlockTable& table, uint32_t micro_batches,
                                       uint32_t workers) {
  return estimate(run, table, micro_batches, workers, false);
}

Result<MemoryEstimate> estimate_memory_of(const RunDefinition& run, uint32_t workers, uint32_t servers) {
  return estimate_memory(run, ps::BlockTable(run.network->parameters(), servers),
                         static_cast<uint32_t>(micro_batches_of(run.spec.train, workers)), workers);
}

Result<MemoryEstimate> estimate_memory_alone(const RunDefinition& run, const ps::BlockTable& table,
                                             uint32_t micro_batches) {
  return estimate(run, table, micro_batches, 1, true);
}

}  // namespace dtrain::node
