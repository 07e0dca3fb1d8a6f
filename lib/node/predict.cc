#include "node/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/batch.h"
#include "graph/executable.h"
#include "node/arithmetic.h"
#include "node/local_rows.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::node {

Status predict(const RunDefinition& run, const data::Dataset& data, int64_t batch, const ParameterSource& source,
               const AnswerSink& sink, const RowSource* rows) {
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
                    graph::Executable::compile(*run.network, graph::Mode::kPredict, batch, "cpu", options));
  const auto size = static_cast<size_t>(run.network->output().elements());
  Buffer outputs(static_cast<size_t>(batch) * size * sizeof(float));
  const data::Sampler in_order(data.size(), run.spec.seed, false);
  graph::Observer observer;
  data::Batch samples;
  for (int64_t first = 0; first < data.size(); first += batch) {
    DTRAIN_TRY(data::fill_batch(data, in_order, {first, batch, std::min(batch, data.size() - first)}, samples));
    graph::Binding binding{.values = values};
    binding.prediction = outputs.as<float>().data();
    graph::Feed feed{samples.samples.data(), nullptr};
    if (local) DTRAIN_TRY(local->look_up(samples.valid, feed));
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
