// A cluster of any size in one thread: the real shard servers, worker protocols and coordinator under a virtual clock,
// on modelled links and processors, without values. Deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/scale/host.h"
#include "sim/scale/model.h"

namespace dtrain::sim::scale {

// Shares of the time that is looked at, of the host that is busiest, from 0 to 1.
struct Utilisation {
  double compute = 0;  // of the mean worker
  double server_in = 0, server_out = 0, worker_in = 0, worker_out = 0;
  double server_loop = 0, worker_loop = 0;  // loop threads, all that they do
  double sums = 0;                          // of a server's loop thread: additions and the optimizer
  double coordinator = 0;                   // of its loop thread
};

struct Outcome {
  Nanoseconds step = 0;  // mean of those that are timed
  std::vector<Nanoseconds> steps;
  Utilisation busy;
  uint64_t messages = 0;      // in all
  uint64_t largest_pool = 0;  // bytes that any server's partial sums ever took
};

// The name of what is busiest: "compute", "server link in", …
const char* bottleneck(const Utilisation& busy);

// An error where the run ends otherwise than it should.
Result<Outcome> simulate(const Model& model);

}  // namespace dtrain::sim::scale
