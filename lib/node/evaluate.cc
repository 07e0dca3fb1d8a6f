#include "node/evaluate.h"

#include <algorithm>

#include "data/batch.h"
#include "graph/executable.h"
#include "node/arithmetic.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::node {

Result<Metrics> evaluate(const RunDefinition& run, const data::Dataset& data, int64_t batch,
                         const ParameterSource& source) {
  const std::vector<ParameterInfo>& parameters = run.network->parameters();
  const worker::ParameterStorage memory(parameters);
  for (size_t p = 0; p < parameters.size(); ++p)
    DTRAIN_TRY(source(parameters[p], {memory.pointers()[p], static_cast<size_t>(parameters[p].shape.elements())}));
  const std::vector<const float*> values(memory.pointers().begin(), memory.pointers().end());

  batch = std::min(batch, data.size());
  graph::CompileOptions options;
  options.compute = compute_type(run.spec.train);
  DTRAIN_TRY_ASSIGN(const auto program,
                    graph::Executable::compile(*run.network, graph::Mode::kEval, batch, "cpu", options));
  const data::Sampler in_order(data.size(), run.spec.seed, false);
  graph::Observer observer;
  data::Batch samples;
  Metrics sum;
  for (int64_t first = 0; first < data.size(); first += batch) {
    DTRAIN_TRY(data::fill_batch(data, in_order, {first, batch, std::min(batch, data.size() - first)}, samples));
    Metrics metrics;
    DTRAIN_TRY(program->run({samples.samples.data(), samples.labels.data()}, {values, {}, &metrics},
                            {run.spec.seed, 0, first, samples.valid}, observer));
    sum += metrics;
  }
  return sum;
}

}  // namespace dtrain::node
