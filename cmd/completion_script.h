// Scripts by which a shell completes the program's command line; each is data of the command tree and a few lines that
// look it up.
#pragma once

#include <string>

#include "command_tree.h"

namespace dtrain::cmd {

std::string bash_completion(const CommandEntry& program);
std::string zsh_completion(const CommandEntry& program);

}  // namespace dtrain::cmd
