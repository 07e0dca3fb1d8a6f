#include "node/local_model.h"

#include "node/arithmetic.h"

namespace dtrain::node {

Result<std::unique_ptr<LocalModel>> LocalModel::load(const RunDefinition& run, const ParameterSource& source,
                                                     const RowSource* rows, int64_t batch) {
  std::unique_ptr<LocalModel> model(new LocalModel(run, batch));
  const std::vector<ParameterInfo>& parameters = run.network->parameters();
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].kind == ParameterKind::kSparse) continue;
    const auto elements = static_cast<size_t>(parameters[p].shape.elements());
    DTRAIN_TRY(source(parameters[p], {model->memory_.pointers()[p], elements}));
  }
  DTRAIN_TRY_ASSIGN(model->rows_, LocalRows::load(run, rows, batch, model->values_));
  return model;
}

Result<std::unique_ptr<graph::Executable>> LocalModel::compile(graph::Mode mode) const {
  graph::CompileOptions options;
  options.compute = compute_type(run_.spec.train);
  return graph::Executable::compile(*run_.network, mode, batch_, "cpu", options);
}

}  // namespace dtrain::node
