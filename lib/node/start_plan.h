// Where a run begins: at step 0, or at its newest checkpoint; and the numbers that its first start fixes for good. Made
// by the coordinator before it waits for anyone.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "base/result.h"
#include "node/out_folder.h"
#include "node/run_definition.h"

namespace dtrain::node {

struct StartPlan {
  int64_t first_step = 0, steps = 0;
  std::string checkpoint;           // folder to load; empty: initial values
  uint32_t micro_batches = 1;       // K
  uint32_t eval_micro_batches = 0;  // 0: no test data
  uint32_t threads = 0;             // for one micro-batch; 0: what all workers can offer
};

// Whether so many workers can begin a new run of this definition; before anything is made or started.
Status can_start(const RunDefinition& run, int64_t workers);

// A new run makes its folder (refused where one is there); a resumed one needs a checkpoint of the same run file. `run`
// has its data open. `split`: each worker computes a part of the network, not of the samples.
Result<StartPlan> plan_start(const RunDefinition& run, int64_t workers, const OutFolder& out, bool resume,
                             FileSystem& files, Log& log, bool split = false);

}  // namespace dtrain::node
