// A whole cluster in one thread: the real shard servers, worker protocols and coordinator on a simulated network, under
// a clock of its own, with the faults of a scenario. Everything is a function of the scenario.
#pragma once

#include <string>

#include "net/memory/memory_network.h"
#include "sim/scenario.h"

namespace dtrain::sim {

struct Outcome {
  std::string failure;  // empty: the run came to the truth, and reported nothing else on its way
  int64_t steps = 0;    // that were completed
  net::MemoryNetwork::Counts network;
  uint64_t duplicates = 0;  // nodes that servers knew already
  uint64_t restarts = 0;
  uint64_t stragglers = 0;  // that others were told to help
  bool sabotaged = false;   // the scenario's sabotage had its occasion
};

Outcome simulate(const Scenario& scenario);

}  // namespace dtrain::sim
