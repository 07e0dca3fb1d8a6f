#include "node/evaluate.h"

#include <algorithm>

#include "data/prefetcher.h"

namespace dtrain::node {

Result<Metrics> evaluate(const RunDefinition& run, const data::Dataset& data, int64_t batch,
                         const ParameterSource& source, size_t threads, const RowSource* rows) {
  batch = std::min(batch, data.size());
  DTRAIN_TRY_ASSIGN(const auto model, LocalModel::load(run, source, rows, batch));
  DTRAIN_TRY_ASSIGN(const auto program, model->compile(graph::Mode::kEval));
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
    DTRAIN_TRY(model->look_up(samples.valid, feed));
    DTRAIN_TRY(program->run(feed, {model->values(), {}, &metrics}, {run.spec.seed, 0, first, samples.valid}, observer));
    sum += metrics;
    ahead.give_back(std::move(samples));
  }
  return sum;
}

}  // namespace dtrain::node
