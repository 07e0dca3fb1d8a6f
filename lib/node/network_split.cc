#include "node/network_split.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::node {

int NetworkSplit::task_of(wire::Rank rank) const {
  const auto at = std::ranges::find(ranks, rank);
  DTRAIN_CHECK(at != ranks.end(), "task {} computes nothing", rank);
  return static_cast<int>(at - ranks.begin());
}

bool names_tasks(const graph::Network& network) {
  return std::ranges::any_of(network.layers(), [](const graph::NetworkLayer& l) { return l.device.has_value(); });
}

Result<std::shared_ptr<const NetworkSplit>> read_split(const RunDefinition& run, const cluster::ClusterSpec& spec) {
  const std::vector<graph::NetworkLayer>& layers = run.network->layers();
  if (!names_tasks(*run.network)) return nullptr;
  config::Diagnostics diagnostics;
  const std::vector<cluster::Task> workers = spec.workers();
  std::vector<int> given;
  const config::Position* first = nullptr;
  for (const graph::NetworkLayer& layer : layers) {
    given.push_back(-1);
    if (!layer.device) continue;
    if (!first) first = &layer.device->position;
    const auto what = fmt::format("layer '{}': ", layer.name);
    const Result<cluster::Task> task = spec.find(layer.device->job, layer.device->task);
    if (!task) {
      diagnostics.error(layer.device->position, what + task.error().message);
      continue;
    }
    const auto worker = std::ranges::find(workers, *task);
    if (worker == workers.end())
      diagnostics.error(layer.device->position,
                        fmt::format("{}{} holds parameters and computes nothing: 'device' is a worker", what,
                                    cluster::to_string(*task)));
    else
      given.back() = static_cast<int>(worker - workers.begin());
  }
  const std::string& mode = run.rule->mode().name;
  if (mode != "sync")
    diagnostics.error(*first,
                      fmt::format("layers on several tasks are for consistency = 'sync' only, not for '{}': take "
                                  "'device' out of the network, or run it in one process",
                                  mode));
  if (run.compression.any())
    diagnostics.error(*first, "layers on several tasks do not go together with compression in [train]");
  if (spec.elastic())
    diagnostics.error(*first, "layers on several tasks are not for a cluster that workers may join and leave");
  if (run.optimizer.optimizer->full_batch())
    diagnostics.error(*first, "layers on several tasks are not for the optimizer lbfgs");
  if (std::ranges::any_of(run.network->parameters(),
                          [](const ParameterInfo& p) { return p.kind == ParameterKind::kSparse; }))
    diagnostics.error(*first,
                      "layers on several tasks do not go together with sparse tables, whose rows every worker pulls");
  if (run.spec.train.speculation.value_or(false))
    diagnostics.error(*first,
                      "'speculation' in [train] is not for layers on several tasks: nobody can do another's part");
  DTRAIN_TRY(diagnostics.status());

  auto result = std::make_shared<NetworkSplit>();
  result->split = graph::split_layers(*run.network, given, static_cast<int>(workers.size()));
  for (const cluster::Task& worker : workers) {
    const int index = static_cast<int>(result->ranks.size());
    result->ranks.push_back(static_cast<wire::Rank>(spec.rank_of(worker)));
    if (std::ranges::find(result->split.task_of_layer, index) == result->split.task_of_layer.end())
      diagnostics.error(*first,
                        fmt::format("{} computes no layer: a network is either split over all workers, or not at "
                                    "all and each computes other samples. Give it a layer by 'device', or start "
                                    "fewer workers",
                                    cluster::to_string(worker)));
  }
  DTRAIN_TRY(diagnostics.status());
  if (workers.size() == 1) return nullptr;
  return result;
}

uint32_t stage_lanes(const graph::Executable& train, const NetworkSplit& split, int task, uint32_t micro_batches) {
  if (train.stage().segments.size() == 1) return 1;
  return std::min(micro_batches, static_cast<uint32_t>(graph::micro_batches_under_way(split.split, task)));
}

worker::StageLinks links_of(const graph::Stage& stage, const NetworkSplit& split, uint32_t micro_batches) {
  const auto rank = [&](int task) { return split.ranks[static_cast<size_t>(task)]; };
  worker::StageLinks links{.micro_batches = micro_batches, .imports = {}, .exports = {}};
  for (const graph::Stage::Import& import : stage.imports)
    links.imports.push_back({static_cast<uint32_t>(import.value), rank(import.from), import.bytes});
  for (const graph::Stage::Export& out : stage.exports) {
    links.exports.push_back({static_cast<uint32_t>(out.value), {}});
    for (int task : out.to) links.exports.back().to.push_back(rank(task));
  }
  return links;
}

}  // namespace dtrain::node
