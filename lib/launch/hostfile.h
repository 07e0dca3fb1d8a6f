// The hosts that a user names for a launch, one a line:
//
//   node[01-16] slots=4          # sixteen hosts, four tasks on each
//   alice@big:2222 role=ps       # user and port for ssh; one task, a parameter server
//   box address=10.0.0.7         # the others reach its tasks at this address
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/spec.h"

namespace dtrain::launch {

struct HostEntry {
  std::string host;                   // as ssh is to be told, with the user where one is given
  int ssh_port = 0;                   // 0: what ssh's configuration says
  int slots = 1;                      // so many tasks
  std::optional<cluster::Role> role;  // only such tasks
  std::string address;                // of its tasks; "": that of the host
};

// `name` is the file's, for messages. Errors (kUsage) name file and line: a host that is there twice, an unknown key
// with the nearest known one; no host at all.
Result<std::vector<HostEntry>> parse_hostfile(std::string_view text, const std::string& name);

struct PlacedHostTask {
  cluster::Task task;
  size_t host = 0;  // index into the hosts
};

// Which task goes to which host, each into a slot of its own: parameter servers to one host after the other, workers
// host by host. An error (kUsage) where there are fewer slots than tasks. workers < 0: as many as there are slots.
// In the order of ranks.
Result<std::vector<PlacedHostTask>> place_tasks(const std::vector<HostEntry>& hosts, int workers, int ps);

}  // namespace dtrain::launch
