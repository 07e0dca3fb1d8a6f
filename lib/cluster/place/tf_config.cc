#include "cluster/place/tf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "cluster/place/source.h"

namespace dtrain::cluster {
namespace {

using nlohmann::json;

tl::unexpected<Error> bad(const std::string& what) {
  return fail(ExitCode::kUsage, fmt::format("TF_CONFIG in the environment: {}. Unset it, or give --cluster, "
                                            "--cluster_spec, or --ps_hosts and --worker_hosts, which go before it",
                                            what));
}

// The addresses of a job; none where it is not there.
Result<std::vector<std::string>> addresses(const json& cluster, const std::string& job) {
  std::vector<std::string> out;
  const auto at = cluster.find(job);
  if (at == cluster.end()) return out;
  if (!at->is_array()) return bad(fmt::format("the job '{}' is no list of addresses", job));
  for (const json& address : *at) {
    if (!address.is_string() || address.get_ref<const std::string&>().find_first_of(";,|") != std::string::npos)
      return bad(fmt::format("the job '{}' holds {}, which is no address", job, address.dump()));
    out.push_back(address);
  }
  return out;
}

}  // namespace

Result<std::optional<PlacedTask>> parse_tf_config(std::string_view text, const SpecOptions& options) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return bad("it is no JSON object");
  const auto cluster = root.find("cluster");
  if (cluster == root.end() || cluster->empty()) return std::optional<PlacedTask>();
  if (!cluster->is_object()) return bad("'cluster' is no object of jobs");
  for (const auto& [job, tasks] : cluster->items())
    if (job != "chief" && job != "master" && job != "worker" && job != "ps" && job != "evaluator")
      return bad(fmt::format("there is no job '{}': known are chief, worker, ps and evaluator", job));
  DTRAIN_TRY_ASSIGN(std::vector<std::string> workers, addresses(*cluster, "chief"));
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> masters, addresses(*cluster, "master"));
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> others, addresses(*cluster, "worker"));
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> ps, addresses(*cluster, "ps"));
  workers.insert(workers.end(), masters.begin(), masters.end());
  const size_t chiefs = workers.size();
  if (chiefs > 1) return bad("there is more than one chief");
  workers.insert(workers.end(), others.begin(), others.end());

  const auto task = root.find("task");
  if (task == root.end() || !task->is_object() || !task->contains("type") || !(*task)["type"].is_string())
    return bad("it does not say which task this is: 'task' has no 'type'");
  const std::string type = (*task)["type"];
  if (type == "evaluator") return bad("there are no evaluators: a run evaluates as [train] says, by itself");
  const auto index = task->find("index");
  if (index != task->end() && !index->is_number_integer()) return bad("the 'index' of 'task' is no whole number");
  const int64_t given = index == task->end() ? 0 : index->get<int64_t>();
  const bool chief = type == "chief" || type == "master";
  if (!chief && type != "worker" && type != "ps") return bad(fmt::format("there is no job '{}'", type));
  const size_t tasks = chief ? chiefs : type == "ps" ? ps.size() : others.size();
  if (given < 0 || given >= static_cast<int64_t>(tasks))
    return bad(fmt::format("there is no task {} of the job '{}', which has {}", given, type, tasks));

  auto spec = parse_cluster_spec(
      fmt::format("worker|{}{}{}", fmt::join(workers, ";"), ps.empty() ? "" : ",ps|", fmt::join(ps, ";")), options);
  if (!spec) return bad(spec.error().message);
  const Task self{type == "ps" ? "ps" : "worker",
                  static_cast<int>(given) + (type == "worker" ? static_cast<int>(chiefs) : 0)};
  return std::optional(PlacedTask{std::move(*spec), self});
}

namespace {

Result<std::optional<Seat>> look(const Environment& environment, const Wishes& wishes) {
  const auto text = variable(environment, "TF_CONFIG");
  if (!text) return std::optional<Seat>();
  DTRAIN_TRY_ASSIGN(auto placed, parse_tf_config(*text, wishes.spec));
  if (!placed) return std::optional<Seat>();
  Seat seat;
  seat.rank = placed->spec.rank_of(placed->self);
  seat.size = placed->spec.size();
  seat.numbered = false;  // ranks are dtrain's own
  seat.with = fmt::format("{} of {}", to_string(placed->self), to_string(placed->spec));
  seat.task = std::move(placed);
  return std::optional(std::move(seat));
}

Result<PlacedTask> cluster_of(const Seat& seat, const Environment&, const Wishes& wishes) {
  if (wishes.ps > 0)
    return bad(fmt::format("it says itself which tasks are parameter servers; --ps {} does not go with it", wishes.ps));
  return *seat.task;
}

}  // namespace

const Source kTfConfig{"TF_CONFIG", "TF_CONFIG", look, cluster_of, false};

}  // namespace dtrain::cluster
