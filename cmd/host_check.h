// Whether tasks of a run can be started on this host: what `launch` asks of every host before it starts anything.
#pragma once

#include <string>

#include "launch/host.h"

namespace dtrain::cmd {

// Looks at the run file, the files that it names, memory, the folder to write into, and reserves the ports of the
// tasks. Everything that is wrong is found at once.
launch::Reserved check_host(const launch::Preparation& what);

// The same text for all processes that share a kernel and its network; others are on other machines.
std::string machine_name();
// Of this program and its protocol: only tasks of the same one can talk.
std::string program_version();

}  // namespace dtrain::cmd
