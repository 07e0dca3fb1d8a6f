// Loss and accuracy of given parameters over a whole data set, in this process, every sample once.
#pragma once

#include "base/result.h"
#include "data/dataset.h"
#include "node/local_model.h"
#include "node/run_definition.h"
#include "tensor/metrics.h"

namespace dtrain::node {

// `batch` samples at a time, read ahead on `threads` threads; `data` fits the network of `run`. `rows`: of
// sparse tables, where there are any.
Result<Metrics> evaluate(const RunDefinition& run, const data::Dataset& data, int64_t batch,
                         const ParameterSource& source, size_t threads = 1, const RowSource* rows = nullptr);

}  // namespace dtrain::node
