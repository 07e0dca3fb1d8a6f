// Slurm's srun: SLURM_PROCID among SLURM_STEP_NUM_TASKS (SLURM_NTASKS), on the nodes of SLURM_STEP_NODELIST with
// SLURM_STEP_TASKS_PER_NODE tasks each, dealt out as SLURM_DISTRIBUTION says.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cluster/host_range.h"
#include "cluster/place/job_ports.h"
#include "cluster/place/numbered_cluster.h"
#include "cluster/place/slurm_layout.h"
#include "cluster/place/source.h"

namespace dtrain::cluster {
namespace {

constexpr int64_t kMaxTasks = 65'536;

tl::unexpected<Error> bad(const std::string& what, const std::string& remedy =
                                                       "srun sets these: start the tasks by it, "
                                                       "or unset them") {
  return fail(ExitCode::kUsage, fmt::format("Slurm's variables in the environment: {}. {}", what, remedy));
}

// A batch script, or a shell that salloc opened, is one process, whatever SLURM_NTASKS says of the job.
Seat outside_of_srun(const Environment& environment) {
  Seat seat;
  seat.numbered = false;
  seat.with = said(environment, {"SLURM_JOB_ID"});
  seat.remark = fmt::format(
      "Slurm job {} without srun: this process trains alone; srun dtrain run … starts the tasks of a "
      "cluster",
      *variable(environment, "SLURM_JOB_ID"));
  return seat;
}

// How many tasks the step has. Where a shell runs as a step of its own (an interactive one), SLURM_NTASKS may still be
// the job's.
Result<int64_t> tasks_of_step(const Environment& environment) {
  const bool ntasks = variable(environment, "SLURM_NTASKS").has_value();
  if (!variable(environment, "SLURM_STEP_NUM_TASKS")) {
    if (!ntasks) return fail(ExitCode::kUsage, "SLURM_NTASKS does not say how many tasks there are");
    return number_in(environment, "SLURM_NTASKS", 1, kMaxTasks);
  }
  DTRAIN_TRY_ASSIGN(const int64_t step, number_in(environment, "SLURM_STEP_NUM_TASKS", 1, kMaxTasks));
  if (step > 1 && ntasks) {
    DTRAIN_TRY_ASSIGN(const int64_t job, number_in(environment, "SLURM_NTASKS", 1, kMaxTasks));
    if (job != step)
      return fail(ExitCode::kUsage, fmt::format("SLURM_NTASKS={}, but SLURM_STEP_NUM_TASKS={}", job, step));
  }
  return step;
}

// Whether this task sits where the layout has it.
Status check_own_spot(const Environment& environment, const TaskSpot& spot) {
  const std::pair<const char*, int> own[] = {{"SLURM_NODEID", spot.node}, {"SLURM_LOCALID", spot.local}};
  for (const auto& [name, expected] : own) {
    if (!variable(environment, name)) continue;
    DTRAIN_TRY_ASSIGN(const int64_t is, number_in(environment, name, 0, kMaxTasks));
    if (is != expected)
      return fail(ExitCode::kUsage,
                  fmt::format("{}={}, but a task of this number is expected at {} ({})", name, is, expected,
                              said(environment, {"SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
                                                 "SLURM_DISTRIBUTION"})));
  }
  return {};
}

Status add_hosts(const Environment& environment, Seat& seat) {
  const std::string list = variable(environment, "SLURM_STEP_NODELIST").value_or("");
  const std::string counts = variable(environment, "SLURM_STEP_TASKS_PER_NODE").value_or("");
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> nodes, expand_hosts(list));
  const auto tasks = parse_tasks_per_node(counts);
  if (!tasks) return fail(ExitCode::kUsage, "SLURM_STEP_TASKS_PER_NODE: " + tasks.error().message);
  if (tasks->size() != nodes.size())
    return fail(ExitCode::kUsage, fmt::format("SLURM_STEP_NODELIST={} names {} nodes, but SLURM_STEP_TASKS_PER_NODE={} "
                                              "counts the tasks of {}",
                                              list, nodes.size(), counts, tasks->size()));
  const int64_t sum = std::accumulate(tasks->begin(), tasks->end(), int64_t{0});
  if (sum != seat.size)
    return fail(ExitCode::kUsage,
                fmt::format("SLURM_STEP_TASKS_PER_NODE={} are {} tasks, but the step has {}", counts, sum, seat.size));
  int64_t plane = 0;
  if (variable(environment, "SLURM_DIST_PLANESIZE")) {
    DTRAIN_TRY_ASSIGN(plane, number_in(environment, "SLURM_DIST_PLANESIZE", 1, kMaxTasks));
  }
  const std::vector<TaskSpot> spots =
      layout(*tasks, variable(environment, "SLURM_DISTRIBUTION").value_or(""), static_cast<int>(plane));
  if (spots.empty()) return {};  // not known; a cluster that the user gives may do without
  DTRAIN_TRY(check_own_spot(environment, spots[static_cast<size_t>(seat.rank)]));
  for (const TaskSpot& spot : spots) {
    seat.hosts.push_back(nodes[static_cast<size_t>(spot.node)]);
    seat.locals.push_back(spot.local);
  }
  return {};
}

Result<std::optional<Seat>> look(const Environment& environment, const Wishes&) {
  if (!variable(environment, "SLURM_JOB_ID")) return std::optional<Seat>();
  if (!variable(environment, "SLURM_STEP_ID") || !variable(environment, "SLURM_STEP_NODELIST") ||
      !variable(environment, "SLURM_PROCID"))
    return std::optional(outside_of_srun(environment));
  Seat seat;
  const auto size = tasks_of_step(environment);
  if (!size) return bad(size.error().message);
  const auto rank = number_in(environment, "SLURM_PROCID", 0, *size - 1);
  if (!rank) return bad(fmt::format("{}, but the step has SLURM_NTASKS={} tasks", rank.error().message, *size));
  seat.rank = static_cast<int>(*rank);
  seat.size = static_cast<int>(*size);
  seat.with =
      said(environment, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST"});
  if (seat.size == 1) return std::optional(std::move(seat));
  const Status hosts = add_hosts(environment, seat);
  if (!hosts) return bad(hosts.error().message);
  return std::optional(std::move(seat));
}

// The port of every rank: those that srun has reserved, else counted from one that follows from job and step.
Result<std::vector<int>> ports_of(const Seat& seat, const Environment& environment, const Wishes& wishes) {
  const int most = *std::max_element(seat.locals.begin(), seat.locals.end()) + 1;
  std::vector<int> by_local;
  const auto reserved = variable(environment, "SLURM_STEP_RESV_PORTS");
  if (reserved && !wishes.port_base) {
    const auto ports = parse_reserved_ports(*reserved);
    if (!ports) return bad("SLURM_STEP_RESV_PORTS: " + ports.error().message);
    if (std::ssize(*ports) < most)
      return bad(fmt::format("SLURM_STEP_RESV_PORTS={} are {} ports, but {} tasks share a node", *reserved,
                             ports->size(), most),
                 fmt::format("Give srun --resv-ports={}, or dtrain --port_base PORT", most));
    by_local = *ports;
  } else {
    const std::string job = "slurm " + said(environment, {"SLURM_JOB_ID", "SLURM_STEP_ID"});
    DTRAIN_TRY_ASSIGN(const uint16_t first, first_port(job, most, wishes.port_base));
    for (int i = 0; i < most; ++i) by_local.push_back(first + i);
  }
  std::vector<int> ports;
  for (const int local : seat.locals) ports.push_back(by_local[static_cast<size_t>(local)]);
  return ports;
}

Result<PlacedTask> cluster_of(const Seat& seat, const Environment& environment, const Wishes& wishes) {
  if (seat.hosts.empty())
    return bad(fmt::format("with the distribution '{}' they do not tell which task is on which node",
                           variable(environment, "SLURM_DISTRIBUTION").value_or("")),
               "Give srun --distribution=block or cyclic, or dtrain a cluster by --cluster FILE");
  DTRAIN_TRY_ASSIGN(const std::vector<int> ports, ports_of(seat, environment, wishes));
  std::vector<TaskAddress> addresses;
  for (size_t rank = 0; rank < ports.size(); ++rank)
    addresses.push_back({seat.hosts[rank], static_cast<uint16_t>(ports[rank])});
  return cluster_of_addresses(addresses, seat.rank, wishes);
}

}  // namespace

const Source kSlurm{"Slurm", "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST", look,
                    cluster_of};

}  // namespace dtrain::cluster
