// What `launch --sync` copies to the hosts, and where it goes there.
#pragma once

#include <string>
#include <vector>

#include "launch/copying.h"
#include "launch_flags.h"
#include "node/run_definition.h"

namespace dtrain::cmd {

// The run file, what it includes and --init; with --sync_data the data as well. What lies below this folder goes below
// the hosts' one, all else to the same place.
Result<std::vector<launch::CopyJob>> launch_copies(const LaunchFlags& flags, const node::RunDefinition& run);

// Where this dtrain is kept on other hosts, "$HOME/…": a path that no other build has.
std::string store_path(FileSystem& files);

}  // namespace dtrain::cmd
