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

// How many rows of all tables a micro-batch of so many samples can use.
uint64_t rows_used(const RunDefinition& run, int64_t samples);

}  // namespace dtrain::node
