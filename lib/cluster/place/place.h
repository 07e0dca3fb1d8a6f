// Which task of which cluster this process is: what the command line says goes first, then what the engine says that
// has started the process, in the order of sources(). Pure functions of what they are given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/place/source.h"

namespace dtrain::cluster {

// What flags, and DTRAIN_* in the environment, say.
struct Given {
  std::optional<ClusterSpec> spec = {};
  std::string job = {};  // "": none
  int task = -1;         // −1: none
  Wishes wishes = {};
};

struct Place {
  std::optional<PlacedTask> task;  // nothing: the whole run is in this process
  bool of_engine = false;          // an engine has started the tasks, and ends them, all at once
  std::string sentence;            // for the log: which engine says so, by what; "" where flags say it all
};

// Errors (kUsage) say what contradicts what and what to do.
Result<Place> find_place(const Given& given, const Environment& environment);

enum class Says {
  kNothing,  // its variables are not there
  kWins,
  kToo,      // it is there, and comes after the one that wins
  kNonsense  // it is an error
};

struct Finding {
  std::string source;     // "the command line", "Slurm"
  std::string variables;  // by which it is known
  Says says = Says::kNothing;
  std::string text;  // what it says, or what is wrong with it; "" where it says nothing
};

// Every source in its order, for a person who wonders who decides. Exactly what find_place would do.
std::vector<Finding> survey(const Given& given, const Environment& environment);

}  // namespace dtrain::cluster
