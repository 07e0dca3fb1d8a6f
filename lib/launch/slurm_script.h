// The batch script by which Slurm starts a run. Pure: text in, text out.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct SlurmScript {
  std::string job_name;
  std::string folder;  // that the tasks run in, absolute
  std::string log;     // file for what they print, absolute; %j in it stands for the job's number
  int tasks = 1;
  int nodes = 0;                     // 0: as many as Slurm chooses
  std::vector<std::string> options;  // of sbatch, each as on its command line: "--time=2:00:00", "-p gpu"
  bool requeue = false;              // the command can be run again and goes on
  bool expendable_tasks = false;     // the run goes on without some tasks
  std::vector<std::string> command;  // of each task
};

// The error (kUsage) says which option cannot be.
Result<std::string> slurm_script(const SlurmScript& script);

// A path for an option of sbatch in which "%j" and the like are patterns.
std::string without_patterns(const std::string& path);

// Whether an option of that name is among them; short is its letter: ("output", 'o').
bool has_option(const std::vector<std::string>& options, const std::string& name, char letter);

// What `sbatch --parsable` prints: the job's number, or "" where it is not there.
std::string job_id(const std::string& output);

}  // namespace dtrain::launch
