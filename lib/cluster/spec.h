// Which tasks a cluster has and where they listen: the cluster spec, from a file or from flags. A value that does not
// change during a run; safe to share between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::cluster {

enum class Role { kWorker, kPs };  // computes gradients; holds parameters

struct TaskAddress {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;
  bool operator==(const TaskAddress&) const = default;
};

struct Job {
  std::string name;
  Role role = Role::kWorker;
  std::vector<TaskAddress> tasks;
  std::vector<std::string> devices;  // one a task: "cpu", "gpu:0"
};

struct Task {
  std::string job;
  int index = 0;
  bool operator==(const Task&) const = default;
};

std::string to_string(Role role);                   // "worker", "ps"
std::string to_string(const TaskAddress& address);  // "host:2500", "[::1]:2500"
std::string to_string(const Task& task);            // "/job:worker/task:0"

// At least one worker, no address twice, every job with at least one task. Ranks number the tasks from 0: those of ps
// jobs first, then the workers, each in the order of the spec.
class ClusterSpec {
 public:
  // One worker in this process, with no address to speak of: `dtrain run` without a cluster.
  static ClusterSpec local();

  const std::string& name() const { return name_; }  // "" where none was given
  const std::vector<Job>& jobs() const { return jobs_; }

  int size() const { return static_cast<int>(tasks_.size()); }
  const std::vector<Task>& tasks() const { return tasks_; }  // by rank
  std::vector<Task> workers() const;
  // Who holds parameters: the ps tasks; where there are none, every worker, with a server beside it.
  std::vector<Task> servers() const;
  bool has_ps() const { return ps_tasks_ > 0; }
  // Keeps membership and the run's end: the task of rank 0.
  const Task& coordinator() const { return tasks_.front(); }

  // What the user asked for by --job_name and --task_id; an unknown one is answered with what there is.
  Result<Task> find(std::string_view job, int64_t index) const;
  // REQUIRES: a task of this cluster, a rank below size().
  int rank_of(const Task& task) const;
  const Task& task_of(int rank) const;
  Role role_of(const Task& task) const;
  const TaskAddress& address_of(const Task& task) const;
  const std::string& device_of(const Task& task) const;

 private:
  friend class SpecBuilder;
  const Job& job_of(const Task& task) const;

  std::string name_;
  std::vector<Job> jobs_;
  std::vector<Task> tasks_;
  int ps_tasks_ = 0;
};

// The cluster file:  name = "office";  [jobs.ps]  tasks = ["10.0.0.1:2500"];  devices = "gpu:0" or one a task;
// role = "worker" or "ps" where the job's name does not say it.
Result<ClusterSpec> read_cluster_spec(const config::Value& root);

// "worker|10.0.0.1:2500;10.0.0.2:2500,ps|10.0.0.3:2500", as --cluster_spec takes it. Jobs are named worker or ps.
Result<ClusterSpec> parse_cluster_spec(std::string_view text);

// --ps_hosts and --worker_hosts, each "a:2500,b:2500"; no ps hosts puts the servers beside the workers.
Result<ClusterSpec> parse_host_lists(std::string_view ps_hosts, std::string_view worker_hosts);

// "host:port", "[v6]:port". The error says what is wrong with it.
Result<TaskAddress> parse_address(std::string_view text);

// In the form that parse_cluster_spec reads (jobs of other names and devices need the file).
std::string to_string(const ClusterSpec& spec);

}  // namespace dtrain::cluster
