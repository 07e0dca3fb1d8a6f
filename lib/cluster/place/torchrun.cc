// torchrun, and all who set the same variables (torch.distributed's "env://", Kubeflow's PyTorchJob): RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT, the same on all hosts but for RANK. Only the address of rank 0 is known.
#include <fmt/format.h>

#include "cluster/place/numbered_cluster.h"
#include "cluster/place/source.h"

namespace dtrain::cluster {
namespace {

constexpr int64_t kMaxTasks = 65'536;

tl::unexpected<Error> bad(const std::string& what, const std::string& remedy) {
  return fail(ExitCode::kUsage, fmt::format("torchrun's variables in the environment: {}. {}", what, remedy));
}

Result<std::optional<Seat>> look(const Environment& environment, const Wishes&) {
  const std::string remedy = "Set RANK and WORLD_SIZE as torchrun does, or unset them";
  const bool rank_there = variable(environment, "RANK").has_value();
  const bool size_there = variable(environment, "WORLD_SIZE").has_value();
  // One alone may be somebody else's; with MASTER_ADDR it is a launch that is not complete, and N solo runs otherwise.
  if (rank_there != size_there && variable(environment, "MASTER_ADDR"))
    return bad(fmt::format("there are MASTER_ADDR and {}, but no {}", rank_there ? "RANK" : "WORLD_SIZE",
                           rank_there ? "WORLD_SIZE" : "RANK"),
               remedy);
  if (!rank_there || !size_there) return std::optional<Seat>();
  const auto size = number_in(environment, "WORLD_SIZE", 1, kMaxTasks);
  if (!size) return bad(size.error().message, remedy);
  const auto rank = number_in(environment, "RANK", 0, *size - 1);
  if (!rank)
    return bad(fmt::format("{}, of which WORLD_SIZE={} tasks have one each", rank.error().message, *size), remedy);
  Seat seat;
  seat.rank = static_cast<int>(*rank);
  seat.size = static_cast<int>(*size);
  if (variable(environment, "LOCAL_WORLD_SIZE")) {
    const auto here = number_in(environment, "LOCAL_WORLD_SIZE", 1, *size);
    if (!here) return bad(here.error().message, remedy);
    seat.tasks_here = static_cast<int>(*here);
  }
  seat.with = said(environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  return std::optional(std::move(seat));
}

Result<PlacedTask> cluster_of(const Seat& seat, const Environment& environment, const Wishes& wishes) {
  const auto address = variable(environment, "MASTER_ADDR");
  if (!address)
    return bad(fmt::format("RANK={} of WORLD_SIZE={} tasks, but MASTER_ADDR does not say where rank 0 is", seat.rank,
                           seat.size),
               "Set MASTER_ADDR and MASTER_PORT, the same for all tasks, or unset RANK");
  // torchrun's agent keeps a store of its own at MASTER_PORT, on the host of rank 0. What is free there cannot be
  // agreed on without speaking its protocol, so it is the next port, or the one that the user names.
  const bool agent = variable(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  int64_t port = wishes.port_base.value_or(0);
  if (!wishes.port_base) {
    if (!variable(environment, "MASTER_PORT"))
      return bad(fmt::format("MASTER_ADDR={}, but no MASTER_PORT", *address),
                 "Set MASTER_PORT, or DTRAIN_PORT_BASE, to the same free port of that host for all tasks");
    const auto given = number_in(environment, "MASTER_PORT", 1, agent ? 65'534 : 65'535);
    if (!given) return bad(given.error().message, "DTRAIN_PORT_BASE chooses another one");
    port = *given + agent;
  }
  auto placed = cluster_of_master({*address, static_cast<uint16_t>(port)}, seat.rank, seat.size, wishes);
  if (!placed) return bad(placed.error().message, "A cluster that is given by flags goes before them");
  placed->tasks_here = seat.tasks_here;
  return placed;
}

}  // namespace

const Source kTorchrun{"torchrun", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT", look, cluster_of};

}  // namespace dtrain::cluster
