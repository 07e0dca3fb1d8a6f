// A model in this process, for who computes without servers: all of its parameters, and of sparse tables those rows
// that a batch uses. One thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graph/executable.h"
#include "node/local_rows.h"
#include "node/row_source.h"
#include "node/run_definition.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::node {

// Fills a parameter's values.
using ParameterSource = std::function<Status(const ParameterInfo&, std::span<float>)>;

class LocalModel {
 public:
  // For batches of so many samples. `rows`: of sparse tables, where there are any. `run` outlives it.
  static Result<std::unique_ptr<LocalModel>> load(const RunDefinition& run, const ParameterSource& source,
                                                  const RowSource* rows, int64_t batch);

  Result<std::unique_ptr<graph::Executable>> compile(graph::Mode mode) const;
  const std::vector<const float*>& values() const { return values_; }
  // Before a batch is computed: fetches the rows that its samples use.
  Status look_up(int64_t valid, graph::Feed& feed) { return rows_ ? rows_->look_up(valid, feed) : Status(); }

 private:
  LocalModel(const RunDefinition& run, int64_t batch)
      : run_(run),
        batch_(batch),
        memory_(run.network->parameters()),
        values_(memory_.pointers().begin(), memory_.pointers().end()) {}

  const RunDefinition& run_;
  const int64_t batch_;
  const worker::ParameterStorage memory_;
  std::vector<const float*> values_;
  std::unique_ptr<LocalRows> rows_;
};

}  // namespace dtrain::node
