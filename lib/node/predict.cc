#include "node/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/batch.h"

namespace dtrain::node {

Status predict(const RunDefinition& run, const data::Dataset& data, int64_t batch, const ParameterSource& source,
               const AnswerSink& sink, const RowSource* rows) {
  batch = std::min(batch, data.size());
  DTRAIN_TRY_ASSIGN(const auto model, LocalModel::load(run, source, rows, batch));
  DTRAIN_TRY_ASSIGN(const auto program, model->compile(graph::Mode::kPredict));
  const auto size = static_cast<size_t>(run.network->output().elements());
  Buffer outputs(static_cast<size_t>(batch) * size * sizeof(float));
  const data::Sampler in_order(data.size(), run.spec.seed, false);
  graph::Observer observer;
  data::Batch samples;
  for (int64_t first = 0; first < data.size(); first += batch) {
    DTRAIN_TRY(data::fill_batch(data, in_order, {first, batch, std::min(batch, data.size() - first)}, samples));
    graph::Binding binding{.values = model->values()};
    binding.prediction = outputs.as<float>().data();
    graph::Feed feed{samples.samples.data(), nullptr};
    DTRAIN_TRY(model->look_up(samples.valid, feed));
    DTRAIN_TRY(program->run(feed, binding, {run.spec.seed, 0, first, samples.valid}, observer));
    for (int64_t i = 0; i < samples.valid; ++i) {
      const auto output = outputs.as<const float>().subspan(static_cast<size_t>(i) * size, size);
      if (!std::all_of(output.begin(), output.end(), [](float x) { return std::isfinite(x); }))
        return fail(ExitCode::kNotFinite,
                    fmt::format("what the network answers to sample {} is not finite", first + i + 1));
      DTRAIN_TRY(sink(first + i, output));
    }
  }
  return {};
}

}  // namespace dtrain::node
