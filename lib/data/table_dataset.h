// A table in memory as samples: a vector of numbers a row, made of its columns in their order; one-hot categories are
// kept as their number and spread out when a row is read.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/raw_table.h"
#include "data/table_pipeline.h"

namespace dtrain::data {

struct TableInput {
  RawTable table;  // a column for each of the pipeline's, then, where `labelled`, the label
  TablePipeline pipeline;
  bool labelled = true;
  Digest files{};
};

// `context` says what the network takes: any shape with as many elements as the columns make. Errors are
// ExitCode::kData with file and line; those that the run file causes are kUsage.
Result<std::unique_ptr<Dataset>> make_table_dataset(TableInput input, const DatasetContext& context);

}  // namespace dtrain::data
