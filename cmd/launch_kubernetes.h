// dtrain launch --kubernetes: prints the run as objects for kubectl.
#pragma once

#include "launch_flags.h"

namespace dtrain::cmd {

Result<ExitCode> launch_on_kubernetes(const LaunchFlags& flags);

}  // namespace dtrain::cmd
