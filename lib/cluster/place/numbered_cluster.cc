#include "cluster/place/numbered_cluster.h"

#include <fmt/format.h>

namespace dtrain::cluster {
namespace {

Status check(const std::vector<TaskAddress>& addresses, int size, const Wishes& wishes) {
  if (wishes.ps >= size)
    return fail(ExitCode::kUsage,
                fmt::format("--ps {} of {} tasks leaves no worker: start more tasks, or fewer parameter servers",
                            wishes.ps, size));
  for (const TaskAddress& address : addresses)
    if (address.host.find_first_of(";,|[] ") != std::string::npos)
      return fail(ExitCode::kUsage, fmt::format("'{}' is no name and no address of a host", address.host));
  return {};
}

Result<PlacedTask> placed(const std::vector<std::string>& listed, int rank, int size, const Wishes& wishes,
                          const SpecOptions& options) {
  const auto first_worker = listed.begin() + std::min<ptrdiff_t>(wishes.ps, std::ssize(listed));
  std::string text;
  if (wishes.ps > 0) text += fmt::format("ps|{}", fmt::join(listed.begin(), first_worker, ";"));
  if (first_worker != listed.end())
    text += fmt::format("{}worker|{}", text.empty() ? "" : ",", fmt::join(first_worker, listed.end(), ";"));
  DTRAIN_TRY_ASSIGN(ClusterSpec spec, parse_cluster_spec(text, options));
  if (rank >= spec.size())
    return fail(ExitCode::kUsage,
                fmt::format("{} tasks were started, and --max_workers lets no more than {} into the cluster", size,
                            spec.size()));
  const Task self = spec.task_of(rank);
  return PlacedTask{std::move(spec), self};
}

}  // namespace

Result<PlacedTask> cluster_of_addresses(const std::vector<TaskAddress>& addresses, int rank, const Wishes& wishes) {
  const int size = static_cast<int>(addresses.size());
  DTRAIN_TRY(check(addresses, size, wishes));
  std::vector<std::string> listed;
  for (const TaskAddress& address : addresses) listed.push_back(to_string(address));
  return placed(listed, rank, size, wishes, wishes.spec);
}

Result<PlacedTask> cluster_of_master(const TaskAddress& master, int rank, int size, const Wishes& wishes) {
  DTRAIN_TRY(check({master}, size, wishes));
  if (wishes.ps > 1)
    return fail(ExitCode::kUsage,
                fmt::format("--ps {}: only the address of rank 0 is known here, so that it alone can be a parameter "
                            "server: give --ps 1, or a cluster by --cluster FILE",
                            wishes.ps));
  SpecOptions options = wishes.spec;
  if (!options.max_workers) options.max_workers = size - wishes.ps;
  if (!options.min_workers) options.min_workers = std::min(*options.max_workers, size - wishes.ps);
  return placed({to_string(master)}, rank, size, wishes, options);
}

}  // namespace dtrain::cluster
