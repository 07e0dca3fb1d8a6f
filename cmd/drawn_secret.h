// The secret of a run that a launch draws where the user gives none, and the file that it lies in where tasks are not
// handed it by the launcher itself.
#pragma once

#include <string>

#include "base/result.h"

namespace dtrain::cmd {

// 64 hexadecimal digits that nobody has seen.
std::string draw_secret();
// In the run's folder.
std::string drawn_secret_file(const std::string& out);
// For its owner alone from the first moment on. One of an earlier run at this place goes.
Status write_secret(const std::string& path, const std::string& secret);

}  // namespace dtrain::cmd
