// Which tasks a cluster has, where they listen, where parameters lie and how many workers may come and go: the cluster
// spec, from a file or from flags. A value that does not change during a run; safe to share between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/task_address.h"
#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::cluster {

enum class Role { kWorker, kPs };  // computes gradients; holds parameters
// Who holds parameters: the ps tasks; a server beside every listed worker; both.
enum class Placement { kPs, kWorkers, kAll };

struct Job {
  std::string name;
  Role role = Role::kWorker;
  std::vector<TaskAddress> tasks;    // those that are listed
  std::vector<std::string> devices;  // one a listed task: "cpu", "gpu:0"
  std::optional<int> max_tasks;      // of workers: so many may be there; absent: those that are listed
  std::optional<int> min_tasks;      // of workers: the run waits while fewer are there
};

struct Task {
  std::string job;
  int index = 0;
  bool operator==(const Task&) const = default;
};

std::string to_string(Role role);            // "worker", "ps"
std::string to_string(Placement placement);  // "ps", "workers", "all": the key's values
std::string to_string(const Task& task);     // "/job:worker/task:0"

// What a spec on the command line says besides addresses; of the job `worker`.
struct SpecOptions {
  std::string servers;  // "ps", "workers", "all"; "": the usual placement
  std::optional<int> max_workers, min_workers;
  std::optional<double> start_grace;  // seconds
};

// At least one worker, no address twice, every job with at least one task. Ranks number the tasks from 0: those of ps
// jobs first, then the workers that are listed, each in the order of the spec, then the workers that are not: these
// dial the others and nobody dials them, they may join or not, and they hold no parameters.
class ClusterSpec {
 public:
  // One worker in this process, with no address to speak of: `dtrain run` without a cluster.
  static ClusterSpec local();

  const std::string& name() const { return name_; }  // "" where none was given
  const std::vector<Job>& jobs() const { return jobs_; }
  Placement placement() const { return placement_; }

  int size() const { return static_cast<int>(tasks_.size()); }
  const std::vector<Task>& tasks() const { return tasks_; }  // by rank
  std::vector<Task> workers() const;                         // all that may be there
  std::vector<Task> servers() const;                         // that hold parameters, by rank; the first is rank 0
  bool has_ps() const { return ps_tasks_ > 0; }
  // Keeps membership and the run's end: the task of rank 0.
  const Task& coordinator() const { return tasks_.front(); }

  bool elastic() const { return listed_ < size(); }  // workers that are not listed may join
  // So many workers must be there; absent where no job says it: at the start those that are listed, then one.
  std::optional<int> min_workers() const;
  double start_grace() const { return start_grace_; }  // seconds that the start waits for more than min_workers

  // What the user asked for by --job_name and --task_id; an unknown one is answered with what there is.
  Result<Task> find(std::string_view job, int64_t index) const;
  // REQUIRES: a task of this cluster, a rank below size().
  int rank_of(const Task& task) const;
  const Task& task_of(int rank) const;
  Role role_of(const Task& task) const;
  bool listed(const Task& task) const;
  bool serves(const Task& task) const;  // holds parameters
  // Of one that is not listed without host and port.
  const TaskAddress& address_of(const Task& task) const;
  const std::string& device_of(const Task& task) const;

 private:
  friend class SpecBuilder;
  const Job& job_of(const Task& task) const;

  std::string name_;
  Placement placement_ = Placement::kWorkers;
  double start_grace_ = 10;
  std::vector<Job> jobs_;
  std::vector<Task> tasks_;
  int ps_tasks_ = 0, listed_ = 0;
};

// The cluster file:  name = "office";  servers = "all";  [jobs.ps]  tasks = ["10.0.0.1:2500"];  devices = "gpu:0" or
// one a task;  role = "worker" or "ps" where the job's name does not say it;  max_tasks = 16.
Result<ClusterSpec> read_cluster_spec(const config::Value& root);

// "worker|10.0.0.1:2500;10.0.0.2:2500,ps|10.0.0.3:2500", as --cluster_spec takes it. Jobs are named worker or ps.
Result<ClusterSpec> parse_cluster_spec(std::string_view text, const SpecOptions& options = {});

// --ps_hosts and --worker_hosts, each "a:2500,b:2500"; no ps hosts puts the servers beside the workers.
Result<ClusterSpec> parse_host_lists(std::string_view ps_hosts, std::string_view worker_hosts,
                                     const SpecOptions& options = {});

// The addresses, in the form that parse_cluster_spec reads (jobs of other names and devices need the file).
std::string to_string(const ClusterSpec& spec);

// What all tasks of a run must agree on: addresses, ranks, placement.
std::string identity(const ClusterSpec& spec);

}  // namespace dtrain::cluster
