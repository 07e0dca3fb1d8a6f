// On which node srun has put which task, from what it says of the whole step.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace dtrain::cluster {

// "2(x3),1" → {2, 2, 2, 1}: SLURM_STEP_TASKS_PER_NODE.
Result<std::vector<int>> parse_tasks_per_node(std::string_view text);

// "15662-15664,15670" → the ports: SLURM_STEP_RESV_PORTS.
Result<std::vector<int>> parse_reserved_ports(std::string_view text);

struct TaskSpot {
  int node = 0;   // in the order of the node list
  int local = 0;  // SLURM_LOCALID: among those of the node
  bool operator==(const TaskSpot&) const = default;
};

// The spot of every rank. The distribution is SLURM_DISTRIBUTION, of which what comes behind ':' and ',' is about
// processors; "" is Slurm's usual one, block. `plane` is SLURM_DIST_PLANESIZE. Nothing where ranks do not follow from
// it: "arbitrary", and what is not known.
std::vector<TaskSpot> layout(const std::vector<int>& tasks_per_node, std::string_view distribution, int plane);

}  // namespace dtrain::cluster
