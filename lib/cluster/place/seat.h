// What an engine says of a process that it has started: its number among how many, and where the others are. A value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/spec.h"

namespace dtrain::cluster {

struct PlacedTask {
  ClusterSpec spec;
  Task self;
  int tasks_here = 0;  // that the engine started on this host; 0 where the spec's addresses say it
};

struct Seat {
  int rank = 0, size = 1;          // size 1: a run in one process
  bool numbered = true;            // false: rank and size are of no engine's counting
  std::vector<std::string> hosts;  // by rank; none where they are not known
  std::vector<int> locals;         // by rank, with `hosts`: the number among those on the same host
  int tasks_here = 0;              // on this host; 0 where it is not known
  std::optional<PlacedTask> task;  // where the engine knows the whole cluster by itself
  std::string with;                // for a person: the variables that say so
  std::string remark;              // for a person, where the process is not what the variables let expect; or ""
};

}  // namespace dtrain::cluster
