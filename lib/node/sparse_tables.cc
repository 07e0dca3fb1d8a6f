#include "node/sparse_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::node {
void check_sparse_tables(const RunDefinition& run, config::Diagnostics& diagnostics) {
  const std::vector<ParameterInfo>& parameters = run.network->parameters();
  const auto table = std::find_if(parameters.begin(), parameters.end(),
                                  [](const ParameterInfo& p) { return p.kind == ParameterKind::kSparse; });
  if (table == parameters.end()) return;
  const auto refuse = [&](const config::Position& at, const std::string& what, const char* why) {
    diagnostics.error(
        at, fmt::format("{} is not for sparse tables such as '{}', {}; leave one of them out", what, table->name, why));
  };
  const config::Value& train = *run.root.find("train");
  const config::Value& optimizer = run.spec.optimizer;
  if (run.rule->mode().name != "sync")
    refuse(train.position_of("consistency"), fmt::format("consistency = '{}'", run.rule->mode().name),
           "whose rows go from version to version step by step");
  if (run.compression.any())
    refuse(train.position_of(run.compression.gradients ? "compression" : "compress_pulls"),
           "compression of gradients or parameters", "whose rows travel as they are");
  if (run.spec.train.ema > 0)
    refuse(train.position_of("ema"), "'ema' in [train]", "of which a step moves only the rows that it uses");
  if (run.optimizer.clip_norm)
    refuse(optimizer.position_of("clip_norm"), "'clip_norm' in [optimizer]",
           "whose gradients are never all in one place");
  if (run.optimizer.optimizer->norm_need() != optim::NormNeed::kNone)
    refuse(optimizer.position_of("type"), "an optimizer with norms of whole parameters (lars, lamb)",
           "of which only the rows that were used exist");
  if (run.optimizer.optimizer->full_batch())
    refuse(optimizer.position_of("type"), "the optimizer lbfgs", "since it moves all parameters at once");
}

uint64_t rows_used(const RunDefinition& run, int64_t samples) {
  const std::vector<ParameterInfo>& parameters = run.network->parameters();
  uint64_t rows = 0;
  for (size_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].kind == ParameterKind::kSparse)
      rows += static_cast<uint64_t>(run.network->rows_used(static_cast<ParameterIndex>(p), samples));
  return rows;
}

ps::InitialValues initial_rows(const RunDefinition& run) {
  return [&run](ParameterIndex p, int64_t first, std::span<float> out) {
    run.network->initialize(p, run.spec.seed, first, out);
  };
}

}  // namespace dtrain::node
