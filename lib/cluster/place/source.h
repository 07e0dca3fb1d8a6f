// The engines whose environment is understood, in the order in which they go before each other. To add one: a file with
// its two functions, a line here and in the table of source.cc.
#pragma once

#include <span>

#include "cluster/place/environment.h"
#include "cluster/place/seat.h"

namespace dtrain::cluster {

// What the user says of a cluster that an engine has placed.
struct Wishes {
  SpecOptions spec = {};
  int ps = 0;                         // so many of the first ranks are parameter servers
  std::optional<int> port_base = {};  // the first port that tasks listen at
};

struct Source {
  const char* name;       // "Slurm"
  const char* variables;  // by which it is known: "SLURM_PROCID, …"
  // Nothing where its variables are not there; an error (kUsage) where they contradict each other.
  Result<std::optional<Seat>> (*look)(const Environment& environment, const Wishes& wishes);
  // The cluster of a seat that `look` gave, of more than one task. An error where the environment does not tell it.
  Result<PlacedTask> (*cluster)(const Seat& seat, const Environment& environment, const Wishes& wishes);
  // It says which of the tasks this is, whatever their cluster: so it has a say beside one that the user gives.
  bool numbers_tasks = true;
};

extern const Source kTfConfig, kTorchrun, kOpenMpi, kSlurm;

std::span<const Source* const> sources();

}  // namespace dtrain::cluster
