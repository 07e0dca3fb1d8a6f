#include "task_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/ascii.h"

namespace dtrain::cmd {

Result<std::vector<std::string>> task_environment(const std::vector<std::string>& wanted) {
  std::vector<std::string> out;
  for (const std::string& entry : wanted) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const bool is_name = !name.empty() && !is_digit(name[0]) &&
                         std::all_of(name.begin(), name.end(), [](char c) { return is_alnum(c) || c == '_'; });
    if (!is_name)
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
