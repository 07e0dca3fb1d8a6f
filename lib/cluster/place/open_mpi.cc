// Open MPI's mpirun: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, and PMIX_NAMESPACE, which is the job's name
// on every host. It says nowhere on which hosts the other ranks are.
#include <fmt/format.h>

#include "cluster/place/job_ports.h"
#include "cluster/place/numbered_cluster.h"
#include "cluster/place/source.h"

namespace dtrain::cluster {
namespace {

constexpr int64_t kMaxTasks = 65'536;

tl::unexpected<Error> bad(const std::string& what, const std::string& remedy) {
  return fail(ExitCode::kUsage, fmt::format("Open MPI's variables in the environment: {}. {}", what, remedy));
}

Result<std::optional<Seat>> look(const Environment& environment, const Wishes&) {
  if (!variable(environment, "OMPI_COMM_WORLD_RANK") || !variable(environment, "OMPI_COMM_WORLD_SIZE"))
    return std::optional<Seat>();
  const std::string remedy = "mpirun sets them: start the tasks by it, or unset them";
  const auto size = number_in(environment, "OMPI_COMM_WORLD_SIZE", 1, kMaxTasks);
  if (!size) return bad(size.error().message, remedy);
  const auto rank = number_in(environment, "OMPI_COMM_WORLD_RANK", 0, *size - 1);
  if (!rank)
    return bad(fmt::format("{}, of which OMPI_COMM_WORLD_SIZE={} tasks have one each", rank.error().message, *size),
               remedy);
  Seat seat;
  seat.rank = static_cast<int>(*rank);
  seat.size = static_cast<int>(*size);
  if (variable(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")) {
    const auto here = number_in(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, *size);
    if (!here) return bad(here.error().message, remedy);
    seat.tasks_here = static_cast<int>(*here);
  }
  if (seat.tasks_here == seat.size) {
    for (int i = 0; i < seat.size; ++i) {
      seat.hosts.emplace_back("127.0.0.1");
      seat.locals.push_back(i);
    }
  }
  seat.with = said(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  return std::optional(std::move(seat));
}

std::optional<std::string> job_name(const Environment& environment) {
  if (auto name = variable(environment, "PMIX_NAMESPACE")) return name;
  return variable(environment, "OMPI_MCA_ess_base_jobid");
}

// On several hosts: the user says where rank 0 is. mpirun's own address is that of the host where it was typed, which
// need not have a task, and no host of another rank.
Result<PlacedTask> cluster_with_master(const Seat& seat, const Environment& environment, const Wishes& wishes,
                                       const std::optional<std::string>& job) {
  const auto address = variable(environment, "MASTER_ADDR");
  if (!address)
    return bad(fmt::format("{} tasks on several hosts, and mpirun does not say where rank 0 is", seat.size),
               "Say it: mpirun -x MASTER_ADDR=HOST … dtrain run …, where HOST is the first host of the hostfile, by a "
               "name or address that the others reach");
  int64_t port = 0;
  if (!wishes.port_base && variable(environment, "MASTER_PORT")) {
    const auto given = number_in(environment, "MASTER_PORT", 1, 65'535);
    if (!given) return bad(given.error().message, "Leave it out, or name a free port of rank 0's host");
    port = *given;
  } else if (!wishes.port_base && !job) {
    return bad("PMIX_NAMESPACE, from which a port would follow, is not set",
               "Say the port, too: mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=PORT …");
  } else {
    DTRAIN_TRY_ASSIGN(port, first_port("mpi " + job.value_or(""), 1, wishes.port_base));
  }
  return cluster_of_master({*address, static_cast<uint16_t>(port)}, seat.rank, seat.size, wishes);
}

Result<PlacedTask> cluster_here(const Seat& seat, const Wishes& wishes, const std::optional<std::string>& job) {
  if (!wishes.port_base && !job)
    return bad("PMIX_NAMESPACE, from which ports would follow, is not set",
               "Say the first port: mpirun -x DTRAIN_PORT_BASE=PORT …");
  DTRAIN_TRY_ASSIGN(const uint16_t port, first_port("mpi " + job.value_or(""), seat.size, wishes.port_base));
  std::vector<TaskAddress> addresses;
  for (int rank = 0; rank < seat.size; ++rank)
    addresses.push_back({seat.hosts[static_cast<size_t>(rank)], static_cast<uint16_t>(port + rank)});
  return cluster_of_addresses(addresses, seat.rank, wishes);
}

Result<PlacedTask> cluster_of(const Seat& seat, const Environment& environment, const Wishes& wishes) {
  const auto job = job_name(environment);
  auto placed =
      seat.hosts.empty() ? cluster_with_master(seat, environment, wishes, job) : cluster_here(seat, wishes, job);
  if (placed) placed->tasks_here = seat.tasks_here;
  return placed;
}

}  // namespace

const Source kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE", look, cluster_of};

}  // namespace dtrain::cluster
