// The other end of a RemoteHost: runs on a host of a cluster, under ssh, starts the tasks that it is told to start, and
// passes on what they print and how they end. It ends with its launcher: when the connection closes, or nothing is
// heard of the launcher for a while, it kills its tasks; and when it is killed itself, the kernel kills them.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/exit_code.h"
#include "launch/host.h"

namespace dtrain::launch {

struct AgentSetup {
  int in = 0, out = 1;  // to the launcher; are made not to block
  std::string program;  // the path of dtrain
  Greeting greeting;
  Prepare prepare;
};

// Returns when the launcher is gone; no task is left then. Takes over SIGPIPE, SIGHUP, SIGTERM, SIGINT of this process.
ExitCode run_agent(const AgentSetup& setup, const Clock& clock);

}  // namespace dtrain::launch
