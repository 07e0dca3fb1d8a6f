// Programs that are of use beside dtrain, where a cluster spans several hosts.
#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

std::string find(const Surroundings& here, const std::string& program) {
  std::istringstream folders(here.variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

void look(const Surroundings& here, Findings& findings) {
  for (const auto& [program, use] :
       {std::pair("ssh", "to start tasks on other hosts"), std::pair("rsync", "to bring files to other hosts")}) {
    const std::string path = find(here, program);
    if (path.empty())
      findings.note(fmt::format("there is no {}, {}", program, use),
                    fmt::format("apt-get install {}; on one host nobody needs it",
                                std::string(program) == "ssh" ? "openssh-client" : program));
    else
      findings.ok(path);
  }
}

}  // namespace

const Check kPrograms{"programs", look};

}  // namespace dtrain::doctor
