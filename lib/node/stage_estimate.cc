#include "node/stage_estimate.h"

#include "node/arithmetic.h"
#include "worker/engine/parameter_storage.h"
#include "worker/engine/stage_engine.h"

namespace dtrain::node {

Result<std::vector<StageEstimate>> estimate_stages(const RunDefinition& run, const NetworkSplit& split,
                                                   uint32_t micro_batches) {
  const std::vector<graph::NetworkLayer>& layers = run.network->layers();
  std::vector<StageEstimate> stages(split.ranks.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    StageEstimate& stage = stages[static_cast<size_t>(split.split.task_of_layer[i])];
    ++stage.layers;
    stage.parameters += layers[i].parameter_elements;
    stage.forward_flops += layers[i].forward_flops;
  }
  graph::CompileOptions options;
  options.compute = compute_type(run.spec.train);
  options.split = &split.split;
  for (size_t t = 0; t < stages.size(); ++t) {
    StageEstimate& stage = stages[t];
    options.task = static_cast<int>(t);
    DTRAIN_TRY_ASSIGN(const auto program,
                      graph::Executable::compile(*run.network, graph::Mode::kTrain,
                                                 run.spec.train.batch / micro_batches, "cpu", options));
    for (const graph::Stage::Export& out : program->stage().exports)
      for (int to : out.to) stage.sends[to] += static_cast<double>(out.bytes);
    const uint32_t lanes = stage_lanes(*program, split, options.task, micro_batches);
    const std::vector<bool> held = graph::parameters_of(*run.network, split.split, options.task);
    const auto set = static_cast<double>(worker::ParameterStorage::bytes(run.network->parameters(), held));
    stage.activations = static_cast<double>(program->arena_bytes()) * lanes;
    for (const graph::Stage::Import& import : program->stage().imports)
      stage.received +=
          static_cast<double>(import.bytes) * std::min(micro_batches, static_cast<uint32_t>(split.split.tasks) + 1);
    stage.parameter_bytes = set + static_cast<double>(program->persistent_bytes());
    stage.gradients = set * static_cast<double>(worker::StageEngine::sets_needed(micro_batches, lanes));
  }
  return stages;
}

}  // namespace dtrain::node
