// Copying what a run needs to its hosts, with the tools that are there: rsync, or tar through ssh.
#pragma once

#include <string>
#include <vector>

#include "launch/programs.h"
#include "launch/ssh.h"

namespace dtrain::launch {

// Files and folders, by their paths below `base`, to the same places below `target`, which is made. Both are absolute.
struct CopyJob {
  std::string base, target;
  std::vector<std::string> paths;
  // Whether rsync reads both sides to see what has changed, rather than believing size and time: what is edited and
  // launched within a second has the same.
  bool by_content = false;
};

Pipeline rsync_copy(const SshOptions& ssh, const SshTarget& to, const CopyJob& job);
Pipeline tar_copy(const SshOptions& ssh, const SshTarget& to, const CopyJob& job);
// The program itself, to a path below the home of the user there ("$HOME/…"): it is complete there, or not there.
Pipeline program_copy(const SshOptions& ssh, const SshTarget& to, const std::string& program, const std::string& place);

}  // namespace dtrain::launch
