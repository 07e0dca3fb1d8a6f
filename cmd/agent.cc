// dtrain agent: what `launch` starts on other hosts. Not for people.
#include "launch/agent.h"
#include <CLI/CLI.hpp>
#include "commands.h"
#include "host_check.h"
#include "process.h"

namespace dtrain::cmd {
const Command kAgent{"agent", "what launch starts on other hosts; not for people",
                     [](CLI::App& app) -> std::function<ExitCode()> {
                       app.group("");
                       return [] {
                         forget_flags_of_environment();
                         launch::AgentSetup setup;
                         setup.program = own_path();
                         setup.greeting = {program_version(), machine_name(), in_path("rsync")};
                         setup.prepare = check_host;
                         return launch::run_agent(setup, SteadyClock());
                       };
                     }};

}  // namespace dtrain::cmd
