// Copying what a run needs to its hosts, with the tools that are there: rsync, or tar through ssh.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launch/ssh.h"

namespace dtrain::launch {

// Files and folders, by their paths below `base`, to the same places below `target`, which is made. Paths that begin
// with "/" have no place there.
struct CopyJob {
  std::string host;  // for messages
  std::string base, target;
  std::vector<std::string> paths;
};

// Command lines of this machine's shell.
std::string rsync_line(const SshOptions& ssh, const SshTarget& to, const CopyJob& job);
std::string tar_line(const SshOptions& ssh, const SshTarget& to, const CopyJob& job);
// The program itself, to a path below the home of the user there ("$HOME/…"): it is complete there, or not there.
std::string program_line(const SshOptions& ssh, const SshTarget& to, const std::string& program,
                         const std::string& place);

// Runs them all at the same time; of each its last words where it failed, "" where it did not. A line that takes longer
// than `seconds` is ended and counts as failed.
std::vector<std::string> run_lines(const std::vector<std::string>& lines, double seconds);

}  // namespace dtrain::launch
