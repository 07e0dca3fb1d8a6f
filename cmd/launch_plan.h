// Which tasks a launch starts, on which hosts: from a cluster file, a hostfile, or numbers of tasks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/spec.h"
#include "launch/gathering.h"
#include "launch_flags.h"

namespace dtrain::cmd {

struct LaunchPlan {
  std::optional<cluster::ClusterSpec> given;  // where a file says all
  std::string cluster_text;                   // that file
  struct Place {
    cluster::Task task;
    cluster::TaskAddress address;  // port 0: one that is free there
    size_t host = 0;
    uint32_t number = 0;  // by which hosts and supervisor call it
    bool coordinates = false, computes = false, serves = false;
  };
  std::vector<Place> tasks;  // in the order of ranks
  std::vector<launch::WantedHost> hosts;

  // All on this machine, without ssh.
  bool here() const;
  // What a host is to look at before the start, for each host.
  void ask_hosts(const LaunchFlags& flags, const std::string& out, const std::string& run_digest);
};

Result<LaunchPlan> plan_launch(const LaunchFlags& flags);

}  // namespace dtrain::cmd
