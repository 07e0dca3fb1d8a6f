#include "node/evaluate.h"

#include <algorithm>

#include "data/prefetcher.h"
#include "graph/executable.h"
#include "node/arithmetic.h"
#include "node/local_rows.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::node {

Result<Metrics> evaluate(const RunDefinition& run, const data::Dataset& data, int64_t batch,
                         const ParameterSource& source, size_t threads, const RowSource* rows) {
  const std::vector<ParameterInfo>& parameters = run.network->parameters();
  const worker::ParameterStorage memory(parameters);
  for (size_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].kind != ParameterKind::kSparse)
      DTRAIN_TRY(source(parameters[p], {memory.pointers()[p], static_cast<size_t>(parameters[p].shape.elements())}));
  std::vector<const float*> values(memory.pointers().begin(), memory.pointers().end());

  batch = std::min(batch, data.size());
  DTRAIN_TRY_ASSIGN(const auto local, LocalRows::load(run, rows, batch, values));
  graph::CompileOptions options;
  options.compute = compute_type(run.spec.train);
  DTRAIN_TRY_ASSIGN(const auto program,
                    graph::Executable::compile(*run.network, graph::Mode::kEval, batch, "cpu", options));
  const data::Sampler in_order(data.size(), run.spec.seed, false);
  data::Prefetcher ahead(data, in_order, 2, threads);
  const auto request = [&](int64_t first) {
    return data::BatchRequest{first, batch, std::min(batch, data.size() - first)};
  };
  graph::Observer observer;
  Metrics sum;
  for (int64_t first = 0; first < data.size(); first += batch) {
    if (first + batch < data.size()) ahead.prefetch(request(first + batch));
    DTRAIN_TRY_ASSIGN(data::Batch samples, ahead.take(request(first)));
    Metrics metrics;
    graph::Feed feed{samples.samples.data(), samples.labels.data()};
    if (local) DTRAIN_TRY(local->look_up(samples.valid, feed));
    DTRAIN_TRY(program->run(feed, {values, {}, &metrics}, {run.spec.seed, 0, first, samples.valid}, observer));
    sum += metrics;
    ahead.give_back(std::move(samples));
  }
  return sum;
}

}  // namespace dtrain::node
