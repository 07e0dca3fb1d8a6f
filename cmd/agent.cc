// dtrain agent: what `launch` starts on other hosts. Not for people.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "commands.h"
#include "host_check.h"
#include "launch/agent.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

// "PATH" holds a program of this name.
bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string all = path ? path : "";
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    if (access((all.substr(begin, end - begin) + "/" + program).c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

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
