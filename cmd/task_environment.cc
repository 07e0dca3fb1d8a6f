#include "task_environment.h"

#include <fmt/format.h>

#include <cstdlib>

namespace dtrain::cmd {

Result<std::vector<std::string>> task_environment(const std::vector<std::string>& wanted) {
  std::vector<std::string> out;
  for (const std::string& entry : wanted) {
    const size_t equals = entry.find('=');
    if (equals == 0 || entry.empty())
      return fail(ExitCode::kUsage, fmt::format("--env '{}': NAME=VALUE, or NAME of a variable of here", entry));
    if (equals != std::string::npos) {
      out.push_back(entry);
      continue;
    }
    const char* value = std::getenv(entry.c_str());
    if (!value)
      return fail(ExitCode::kUsage, fmt::format("--env {}: there is no such variable here; give NAME=VALUE", entry));
    out.push_back(entry + "=" + value);
  }
  return out;
}

}  // namespace dtrain::cmd
