// What the checks look at: the machine below `root`, the process's environment, and what is to run on it. Immutable
// while checks run; borrows nothing but the file system.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "cluster/place/place.h"
#include "cluster/spec.h"
#include "node/run_definition.h"

namespace dtrain::doctor {

// A task of the cluster that has an address, and what this host makes of that.
struct TaskHost {
  cluster::Task task;
  std::string host;
  uint16_t port = 0;
  std::string unresolved;  // why there is no address to the name; "" where there is
  std::string address;     // the first
  bool here = false;       // it is one of this host's
  bool loopback = false;
};

struct Surroundings {
  const FileSystem& files;
  std::string root = {};  // in front of /proc, /sys, /dev and /etc; "" but for tests
  std::map<std::string, std::string> environment = {};

  // What is to run; nothing where the machine alone is looked at. Its data are open.
  std::string run_file = {};
  std::optional<Result<node::RunDefinition>> run = {};
  // Which tasks there are, and who could say so: the flags, the engine that has started this process.
  std::vector<cluster::Finding> sources = {};
  std::optional<Result<cluster::ClusterSpec>> cluster = {};
  std::optional<cluster::Task> self = {};  // which of them this process would be, where that is said
  std::vector<TaskHost> hosts = {};        // of all that have an address; see resolve_hosts

  // Asks for the names of the cluster's hosts: may take seconds.
  void resolve_hosts();
  // Those that this host would run: `self`, or all whose address is here.
  std::vector<TaskHost> hosts_here() const;

  // A small file as text; "" where it is not there. Also of /proc, whose files have no size.
  std::string text(const std::string& path) const;
  std::string line(const std::string& path) const;  // its first
  bool there(const std::string& path) const;
  // "name:  value" of a file of such lines, as /proc/meminfo.
  std::string field(const std::string& path, const std::string& name) const;
  std::optional<std::string> variable(const std::string& name) const;

  const cluster::ClusterSpec* spec() const { return cluster && *cluster ? &**cluster : nullptr; }
};

// The tightest limits of the control groups that this process is in, of either version of the interface.
struct ControlGroupLimits {
  std::optional<double> cores;
  std::optional<uint64_t> memory;  // bytes
};
ControlGroupLimits control_group_limits(const Surroundings& here);

// Cores that this process may use: of those there are, those of its affinity and of its control group's quota.
struct Cores {
  int online = 0, allowed = 0;
  double usable = 0;
};
Cores count_cores(const Surroundings& here);

}  // namespace dtrain::doctor
