// What the run file says about how the coordinator leads the run.
#pragma once

#include <string>

#include "cluster/coordinator.h"
#include "node/run_definition.h"
#include "node/start_plan.h"

namespace dtrain::node {

// All options but the tasks. `checkpoint_folder` may be empty: nothing is written. `run` outlives them.
cluster::CoordinatorOptions coordinator_options(const RunDefinition& run, const StartPlan& plan,
                                                const std::string& checkpoint_folder);

// Whether version `version` is the first to have seen the whole data `n` times for some n.
bool ends_epoch(int64_t version, int64_t batch, int64_t samples);

}  // namespace dtrain::node
