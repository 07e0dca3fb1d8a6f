// Cluster specs of tasks that are only numbered: the first --ps ranks are parameter servers, the others workers.
#pragma once

#include <string>
#include <vector>

#include "cluster/place/source.h"

namespace dtrain::cluster {

// Every task is listed, at the address of its rank.
Result<PlacedTask> cluster_of_addresses(const std::vector<TaskAddress>& addresses, int rank, const Wishes& wishes);

// Rank 0 is listed and holds the parameters, alone or beside its work; the others are workers that dial it and need no
// address. The run waits until all `size` are there.
Result<PlacedTask> cluster_of_master(const TaskAddress& master, int rank, int size, const Wishes& wishes);

}  // namespace dtrain::cluster
