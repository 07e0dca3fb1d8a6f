// What messages and tensors cost the loop thread of a task on this machine, for the simulator. Takes about a second.
#pragma once

#include "base/result.h"
#include "optim/optimizer.h"
#include "sim/scale/model.h"

namespace dtrain::cmd {

// Frames through a TCP connection to this process itself, sums and updates of chunks that are not in the cache.
Result<sim::scale::HostCosts> measure_host_costs(const optim::Optimizer& optimizer);
// "add=8GB/s" or "message=2us" on top of `costs`.
Status set_cost(sim::scale::HostCosts& costs, const std::string& assignment);

}  // namespace dtrain::cmd
