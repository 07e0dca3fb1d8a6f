// What sparse tables ask of a run, and how their rows begin.
#pragma once

#include "config/diagnostics.h"
#include "node/run_definition.h"
#include "ps/row_store.h"

namespace dtrain::node {

// What does not go together with the sparse tables of the network, said before anything starts. `run` has everything
// but its data.
void check_sparse_tables(const RunDefinition& run, config::Diagnostics& diagnostics);

// A row that nobody has moved: the network's initial values, drawn from the run's seed. `run` outlives it.
ps::InitialValues initial_rows(const RunDefinition& run);

}  // namespace dtrain::node
