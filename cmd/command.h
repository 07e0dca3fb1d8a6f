// What a sub-command is. To add one: cmd/<name>.cc that defines a Command, a line in commands.h, a page
// man/dtrain-<name>.scd.
#pragma once

#include <functional>

#include "base/exit_code.h"

namespace CLI {
class App;
}

namespace dtrain::cmd {

struct Command {
  const char* name;
  const char* summary;  // one line, for `dtrain --help`
  // Declares the flags on `app` and returns what to do once they are parsed.
  std::function<ExitCode()> (*setup)(CLI::App& app);
};

}  // namespace dtrain::cmd
