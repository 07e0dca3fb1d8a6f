// Lists of hosts as Slurm, pdsh and clush write them: "node[01-16,20],login,r[1-2]n[1-4]".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dtrain::cluster {

constexpr size_t kMaxHosts = 65'536;  // that a list may stand for: as many as a cluster may have tasks

// The hosts in the order in which they are written; of several brackets in one name the last one varies first. A number
// is as wide as the first one of its range is written, so that 01-16 keeps its zeros. A host that is there twice comes
// twice: Slurm says so where tasks are spread over nodes in turn. The error (kUsage) says what is wrong with which
// part.
Result<std::vector<std::string>> expand_hosts(std::string_view text);

}  // namespace dtrain::cluster
