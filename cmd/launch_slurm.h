// dtrain launch --slurm: the run as a batch job.
#pragma once

#include <string>
#include <vector>

#include "flags.h"

namespace dtrain::cmd {

struct SlurmFlags {
  bool on = false, print = false;
  int nodes = 0;
  std::vector<std::string> options;

  void declare(CLI::App& app);
  // Flags that mean something with --slurm only.
  Status only_with_slurm() const;
};

struct LaunchFlags;

// Writes the batch script into --out and submits it, or prints it. REQUIRES: flags.slurm.on.
Result<ExitCode> launch_on_slurm(const LaunchFlags& flags);

}  // namespace dtrain::cmd
