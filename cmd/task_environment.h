// What --env says of the environment of tasks.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::cmd {

// NAME=VALUE of each; where only a NAME is given the value is that of this process. An error (kUsage) for what is no
// name, or has no value here.
Result<std::vector<std::string>> task_environment(const std::vector<std::string>& wanted);

}  // namespace dtrain::cmd
