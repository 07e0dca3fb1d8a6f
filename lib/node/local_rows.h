// The sparse tables of a model in this process, for who computes without servers: the rows that the model has, and the
// small tables that a batch is computed with. One thread.
#pragma once

#include <memory>

#include "graph/executable.h"
#include "node/row_source.h"
#include "node/run_definition.h"
#include "worker/engine/row_lookup.h"

namespace dtrain::node {

class LocalRows {
 public:
  // Null where the network has no sparse tables. For batches of so many samples. `run` outlives it, and so does the
  // memory of `values`, the network's parameters, in which it puts its tables.
  static Result<std::unique_ptr<LocalRows>> load(const RunDefinition& run, const RowSource* source, int64_t batch,
                                                 std::vector<const float*>& values);

  // Fills the tables with the rows that the samples use, and says so to `feed`.
  Status look_up(int64_t valid, graph::Feed& feed);

 private:
  LocalRows(const RunDefinition& run, int64_t batch);

  const ps::RowSpace space_;
  ps::RowStore store_;
  worker::RowLookup lookup_;
  std::vector<float> values_;
};

}  // namespace dtrain::node
