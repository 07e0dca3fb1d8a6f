#include "cluster/place/place.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"

namespace dtrain::cluster {
namespace {

struct Look {
  const Source* source;
  Result<std::optional<Seat>> seat;
  bool there() const { return !seat || *seat; }
};

std::vector<Look> look_all(const Given& given, const Environment& environment) {
  std::vector<Look> looks;
  for (const Source* source : sources()) looks.push_back({source, source->look(environment, given.wishes)});
  return looks;
}

bool names_task(const Given& given) { return !given.job.empty() && given.task >= 0; }

// With a cluster on the command line only those count that number the tasks.
bool decides(const Look& look, const Given& given) {
  if (!look.there() || !given.spec) return look.there();
  return look.source->numbers_tasks && (!look.seat || (*look.seat)->numbered);
}

std::string task_names(const ClusterSpec& spec) {
  std::vector<std::string> names;
  for (const Task& task : spec.tasks()) names.push_back(to_string(task));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

bool is_number(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         std::all_of(host.begin(), host.end(), [](char c) { return is_digit(c) || c == '.'; });
}

// Whether two ways to write a host cannot be the same one. A name may be that of another card of the host (node1-ib),
// and what address a name has is not known here.
bool surely_differ(std::string_view a, std::string_view b) {
  if (is_number(a) != is_number(b)) return false;
  if (is_number(a)) return a != b;
  a = a.substr(0, a.find('.'));
  b = b.substr(0, b.find('.'));
  const size_t common = std::min(a.size(), b.size());
  if (a.substr(0, common) != b.substr(0, common)) return true;
  const std::string_view longer = a.size() > b.size() ? a : b;
  return longer.size() > common && is_alnum(longer[common]);
}

// The task is where the engine has put this process, as far as can be told.
Status check_host(const ClusterSpec& spec, const Task& task, const Look& look) {
  const Seat& seat = **look.seat;
  if (!spec.listed(task) || seat.hosts.empty()) return {};
  const std::string& at = spec.address_of(task).host;
  const std::string& here = seat.hosts[static_cast<size_t>(seat.rank)];
  const bool one_host = std::ranges::all_of(seat.hosts, [&](const std::string& host) { return host == here; });
  if (is_loopback(at) ? one_host || at == here : !surely_differ(at, here)) return {};
  return fail(
      ExitCode::kUsage,
      fmt::format("{} of the cluster is at {}, but {} has started it on {} ({}). Give the hosts in the order of the "
                  "engine's tasks, parameter servers first, or name the task by --job_name and --task_id",
                  to_string(task), at, look.source->name, here, seat.with));
}

// A task that flags name, under an engine that has put it on another host than the cluster says: all tasks were
// given the same number.
Status check_named(const ClusterSpec& spec, const Task& task, const std::vector<Look>& looks) {
  if (!spec.listed(task) || is_loopback(spec.address_of(task).host)) return {};
  for (const Look& look : looks)
    if (look.seat && *look.seat && (*look.seat)->numbered && (*look.seat)->size > 1)
      return check_host(spec, task, look);
  return {};
}

// A cluster from the command line, a number from the engine.
Result<Place> numbered_place(const Given& given, const Look& look) {
  if (!look.seat) return tl::unexpected(look.seat.error());
  const Seat& seat = **look.seat;
  const ClusterSpec& spec = *given.spec;
  const auto listed = std::ranges::count_if(spec.tasks(), [&](const Task& task) { return spec.listed(task); });
  if (seat.size < listed || seat.size > spec.size())
    return fail(
        ExitCode::kUsage,
        fmt::format("the cluster has {} tasks ({}), but {} has started {} ({}). Start as many, or name this task "
                    "by --job_name and --task_id",
                    spec.size(), task_names(spec), look.source->name, seat.size, seat.with));
  const Task self = spec.task_of(seat.rank);
  DTRAIN_TRY(check_host(spec, self, look));
  return Place{PlacedTask{spec, self, 0}, true,
               fmt::format("this task is the one of its number in {}: {}", look.source->name, seat.with)};
}

std::string others_too(const std::vector<Look>& looks, const Source* winner) {
  std::vector<std::string> names;
  for (const Look& look : looks)
    if (look.there() && look.source != winner) names.emplace_back(look.source->name);
  return names.empty()
             ? ""
             : fmt::format("; the variables of {} are there, too, and come after them", fmt::join(names, " and "));
}

Result<Place> place_of_seat(const Given& given, const Environment& environment, const std::vector<Look>& looks,
                            const Look& look) {
  if (!look.seat) return tl::unexpected(look.seat.error());
  const Seat& seat = **look.seat;
  const std::string too = others_too(looks, look.source);
  if (!seat.remark.empty()) return Place{{}, false, seat.remark + too};
  if (seat.size == 1)
    return Place{{},
                 false,
                 fmt::format("one process trains alone, the only task of {}: {}{}", look.source->name, seat.with, too)};
  DTRAIN_TRY_ASSIGN(PlacedTask placed, look.source->cluster(seat, environment, given.wishes));
  Place place;
  // What the tasks of TF_CONFIG were started by is not known; signals may be for one of them alone.
  place.of_engine = seat.numbered;
  place.sentence = fmt::format("the cluster and this task are those of {} in the environment: {}{}", look.source->name,
                               seat.with, too);
  place.task = std::move(placed);
  return place;
}

Status check_flags(const Given& given) {
  if (given.spec) {
    if (given.wishes.ps > 0)
      return fail(ExitCode::kUsage,
                  "--ps is for a cluster that an engine has started; the one on the command line says "
                  "itself which tasks are parameter servers");
    return {};
  }
  if (!given.job.empty() || given.task >= 0)
    return fail(ExitCode::kUsage,
                "--job_name and --task_id need a cluster: --cluster FILE, --cluster_spec SPEC, or --ps_hosts "
                "and --worker_hosts");
  return {};
}

Result<Place> decide(const Given& given, const Environment& environment, const std::vector<Look>& looks) {
  DTRAIN_TRY(check_flags(given));
  if (given.spec && names_task(given)) {
    DTRAIN_TRY_ASSIGN(const Task self, given.spec->find(given.job, given.task));
    DTRAIN_TRY(check_named(*given.spec, self, looks));
    return Place{PlacedTask{*given.spec, self, 0}, false, ""};
  }
  const auto winner = std::ranges::find_if(looks, [&](const Look& look) { return decides(look, given); });
  if (given.spec) {
    const bool half = !given.job.empty() || given.task >= 0;
    if (winner == looks.end() || half)
      return fail(ExitCode::kUsage,
                  fmt::format("which task of the cluster is this? Give --job_name and --task_id; tasks: {}",
                              task_names(*given.spec)));
    return numbered_place(given, *winner);
  }
  Place place;
  if (winner != looks.end()) {
    DTRAIN_TRY_ASSIGN(place, place_of_seat(given, environment, looks, *winner));
  }
  if (place.task) return place;
  const SpecOptions& options = given.wishes.spec;
  const std::string alone = place.sentence.empty() ? "" : fmt::format(" ({})", place.sentence);
  if (given.wishes.ps > 0)
    return fail(ExitCode::kUsage,
                fmt::format("--ps is for tasks that srun, mpirun or torchrun has started, and this is one "
                            "process{}: dtrain launch --workers N --ps M starts a cluster by itself",
                            alone));
  if (!options.servers.empty() || options.max_workers || options.min_workers || options.start_grace)
    return fail(ExitCode::kUsage,
                fmt::format("--servers, --max_workers, --min_workers and --start_grace are of a cluster{}: give "
                            "--cluster_spec, or --ps_hosts and --worker_hosts",
                            alone));
  return place;
}

}  // namespace

Result<Place> find_place(const Given& given, const Environment& environment) {
  return decide(given, environment, look_all(given, environment));
}

std::vector<Finding> survey(const Given& given, const Environment& environment) {
  const std::vector<Look> looks = look_all(given, environment);
  const Result<Place> place = decide(given, environment, looks);
  Finding flags{"the command line", "DTRAIN_CLUSTER, DTRAIN_CLUSTER_SPEC, DTRAIN_JOB_NAME, DTRAIN_TASK_ID, …",
                Says::kNothing, ""};
  if (given.spec || !given.job.empty() || given.task >= 0) {
    const bool all = given.spec && names_task(given);
    flags.says = Says::kWins;
    flags.text = given.spec ? "the cluster " + to_string(*given.spec) : "a task";
    if (all) flags.text = fmt::format("/job:{}/task:{} of {}", given.job, given.task, flags.text);
    if (!place && (all || !given.spec)) {
      flags.says = Says::kNonsense;
      flags.text = place.error().message;
    }
  }
  std::vector<Finding> findings{flags};
  const bool by_flags = given.spec ? names_task(given) : flags.says != Says::kNothing;
  bool decided = by_flags;
  for (const Look& look : looks) {
    Finding finding{look.source->name, look.source->variables, Says::kNothing, ""};
    if (look.there()) {
      const bool wins = !decided && decides(look, given);
      finding.says = wins ? Says::kWins : Says::kToo;
      if (look.seat) finding.text = (*look.seat)->remark.empty() ? (*look.seat)->with : (*look.seat)->remark;
      if (!look.seat || (wins && !place)) {
        finding.says = Says::kNonsense;
        finding.text = look.seat ? place.error().message : look.seat.error().message;
      }
      decided = decided || wins;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace dtrain::cluster
