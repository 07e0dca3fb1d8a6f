#include "cluster/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/ascii.h"
#include "base/check.h"
#include "base/nearest.h"
#include "config/table_reader.h"

namespace dtrain::cluster {

using config::Diagnostics;
using config::Position;
using config::Value;

namespace {

constexpr size_t kMaxTasks = 65'536;
const std::array<std::string, 2> kRoles = {"worker", "ps"};
const std::array<std::string, 3> kPlacements = {"ps", "workers", "all"};  // in the order of the enumeration

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    const size_t end = text.find(at, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_device(std::string_view device) {
  if (device == "cpu" || device == "gpu") return true;
  if (!device.starts_with("cpu:") && !device.starts_with("gpu:")) return false;
  device.remove_prefix(4);
  return !device.empty() && device.size() <= 4 && std::all_of(device.begin(), device.end(), is_digit);
}

bool is_job_name(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_alnum(c) || c == '_' || c == '-'; });
}

}  // namespace

// Checks jobs as they come, with the places of their mistakes, and numbers the tasks.
class SpecBuilder {
 public:
  explicit SpecBuilder(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void set_name(std::string name) { spec_.name_ = std::move(name); }
  void set_start_grace(double seconds) { spec_.start_grace_ = seconds; }
  void set_placement(std::string_view name, const Position& at) {
    const auto found = std::find(kPlacements.begin(), kPlacements.end(), name);
    if (found == kPlacements.end())
      return diagnostics_.error(
          at, fmt::format("servers: unknown value '{}'{}", name, suggestion(std::string(name), kPlacements)));
    wanted_ = static_cast<Placement>(found - kPlacements.begin());
    wanted_at_ = at;
  }

  void add_job(Job job, const Position& at) {
    if (!is_job_name(job.name)) {
      diagnostics_.error(at, fmt::format("'{}' is no name for a job: letters, digits, '_' and '-'", job.name));
    }
    const bool again =
        std::any_of(spec_.jobs_.begin(), spec_.jobs_.end(), [&](const Job& j) { return j.name == job.name; });
    if (again) diagnostics_.error(at, fmt::format("job '{}' is there twice", job.name));
    job.devices.resize(job.tasks.size(), "cpu");
    const int listed = static_cast<int>(job.tasks.size()), most = job.max_tasks.value_or(listed);
    if (most < listed)
      diagnostics_.error(at,
                         fmt::format("job '{}' lists {} tasks, but at most {} may be there", job.name, listed, most));
    if (job.min_tasks && *job.min_tasks > std::max(most, listed))
      diagnostics_.error(at, fmt::format("job '{}' needs {} tasks, but no more than {} can be there", job.name,
                                         *job.min_tasks, std::max(most, listed)));
    positions_.push_back(at);
    spec_.jobs_.push_back(std::move(job));
  }

  std::optional<TaskAddress> address(const std::string& job, size_t index, std::string_view text, const Position& at) {
    const std::string task = to_string(Task{job, static_cast<int>(index)});
    Result<TaskAddress> parsed = parse_address(text);
    if (!parsed) {
      diagnostics_.error(at, fmt::format("{}: {}", task, parsed.error().message));
      return std::nullopt;
    }
    auto [first, fresh] = seen_.emplace(lower(to_string(*parsed)), task);
    if (!fresh) diagnostics_.error(at, fmt::format("{} has the address of {}: {}", task, first->second, text));
    if (seen_.size() > kMaxTasks) diagnostics_.error(at, fmt::format("more than {} tasks", kMaxTasks));
    return *parsed;
  }

  ClusterSpec finish(const Position& at) {
    add_tasks(Role::kPs, true);
    spec_.ps_tasks_ = spec_.size();
    add_tasks(Role::kWorker, true);
    spec_.listed_ = spec_.size();
    // One that is far too large is not built, only refused.
    int64_t size = spec_.size();
    for (const Job& job : spec_.jobs_)
      size += std::max(0, job.max_tasks.value_or(0) - static_cast<int>(job.tasks.size()));
    if (size > static_cast<int64_t>(kMaxTasks))
      diagnostics_.error(at, fmt::format("more than {} tasks", kMaxTasks));
    else
      add_tasks(Role::kWorker, false);
    // Where a job is wrong already, it may be the one with the workers.
    if (spec_.size() == spec_.ps_tasks_ && diagnostics_.ok()) {
      diagnostics_.error(at, "the cluster has no worker: at least one task must compute gradients");
    }
    if (diagnostics_.ok()) place(at);
    return std::move(spec_);
  }

 private:
  void add_tasks(Role role, bool listed) {
    for (const Job& job : spec_.jobs_) {
      const int tasks = static_cast<int>(job.tasks.size());
      if (job.role != role) continue;
      for (int i = listed ? 0 : tasks; i < (listed ? tasks : job.max_tasks.value_or(tasks)); ++i)
        spec_.tasks_.push_back({job.name, i});
    }
  }

  // Who holds parameters, and whether that can be.
  void place(const Position& at) {
    spec_.placement_ = wanted_.value_or(spec_.has_ps() ? Placement::kPs : Placement::kWorkers);
    if (spec_.placement_ == Placement::kAll && !spec_.has_ps()) spec_.placement_ = Placement::kWorkers;  // the same
    if (spec_.placement_ == Placement::kPs && !spec_.has_ps())
      diagnostics_.error(wanted_at_, "servers: the parameters shall lie on ps tasks, but the cluster has none");
    if (spec_.placement_ == Placement::kWorkers && spec_.has_ps())
      diagnostics_.error(wanted_at_,
                         "servers: the parameters shall lie beside the workers alone, but there are ps tasks: leave "
                         "these out, or say \"all\"");
    if (spec_.placement_ == Placement::kPs) return;
    if (spec_.listed_ == 0)
      diagnostics_.error(at, "without a ps task the parameters lie beside the workers: list at least one worker");
    for (size_t i = 0; i < spec_.jobs_.size(); ++i) {
      const Job& job = spec_.jobs_[i];
      if (job.min_tasks && *job.min_tasks < static_cast<int>(job.tasks.size()))
        diagnostics_.error(positions_[i],
                           fmt::format("job '{}' cannot do with {} of its {} tasks: all that are listed hold "
                                       "parameters; list fewer, others may join up to max_tasks",
                                       job.name, *job.min_tasks, job.tasks.size()));
    }
  }

  Diagnostics& diagnostics_;
  ClusterSpec spec_;
  std::vector<Position> positions_;  // of the jobs
  std::optional<Placement> wanted_;
  Position wanted_at_;
  std::map<std::string, std::string> seen_;  // address to task
};

namespace {

std::optional<Role> role_named(std::string_view name) {
  if (name == "worker") return Role::kWorker;
  if (name == "ps") return Role::kPs;
  return std::nullopt;
}

Role read_role(config::TableReader& r, const std::string& job, const Position& at) {
  const std::optional<Role> by_name = role_named(job);
  if (!r.has("role")) {
    r.also_known("role");
    if (!by_name) {
      r.diagnostics().error(at, fmt::format("job '{}' needs role = \"worker\" or \"ps\"{}", job,
                                            nearest(job, kRoles).empty() ? "" : suggestion(job, kRoles)));
    }
    return by_name.value_or(Role::kWorker);
  }
  const Role role = role_named(r.choice("role", "worker", kRoles)).value_or(Role::kWorker);
  if (by_name && role != *by_name) r.error("role", fmt::format("a job named '{}' always has that role", job));
  return role;
}

// One for all tasks, or one a task.
std::vector<std::string> read_devices(config::TableReader& r, const std::string& job, size_t tasks) {
  const Value* given = r.value("devices");
  if (!given) return {};
  const std::vector<std::string> devices =
      given->is_string() ? std::vector<std::string>{given->as_string()} : r.strings("devices");
  for (const std::string& device : devices) {
    if (!is_device(device))
      r.error("devices", fmt::format("job '{}': unknown device '{}' (cpu, gpu:0, gpu:1 …)", job, device));
  }
  if (devices.size() == 1) return std::vector<std::string>(tasks, devices[0]);
  if (devices.size() != tasks && given->is_array()) {
    r.error("devices", fmt::format("job '{}' has {} tasks but {} devices; give one for all, or one a task", job, tasks,
                                   devices.size()));
  }
  return devices;
}

// max_tasks, min_tasks.
std::optional<int> read_count(config::TableReader& r, const Job& job, std::string_view key) {
  if (!r.has(key)) {
    r.also_known(key);
    return std::nullopt;
  }
  const int64_t count = r.integer(key, 1, 1, kMaxTasks);
  if (job.role == Role::kPs)
    r.error(key,
            fmt::format("'{}' is for workers: the tasks of job '{}' hold parameters, all are needed", key, job.name));
  return static_cast<int>(count);
}

void read_job(const config::Entry& entry, Diagnostics& diagnostics, SpecBuilder& builder) {
  config::TableReader r(entry.value, diagnostics, fmt::format("job '{}'", entry.key));
  Job job{entry.key, read_role(r, entry.key, entry.key_position), {}, {}, {}, {}};
  job.max_tasks = read_count(r, job, "max_tasks");
  job.min_tasks = read_count(r, job, "min_tasks");
  size_t listed = 0;
  if (const Value* tasks = r.list("tasks")) {
    for (const Value& item : tasks->as_array()) {
      if (diagnostics.full()) return;
      if (!item.is_string()) {
        diagnostics.error(item.position(), fmt::format("'tasks': expected \"host:port\", got {}", describe(item)));
      } else if (auto address = builder.address(entry.key, listed, item.as_string(), item.position())) {
        job.tasks.push_back(std::move(*address));
      }
      ++listed;
    }
  }
  if (listed == 0 && !job.max_tasks && entry.value.is_table())
    r.error("tasks", fmt::format("job '{}' has no tasks", entry.key));
  job.devices = read_devices(r, entry.key, listed);
  r.finish();
  builder.add_job(std::move(job), entry.key_position);
}

// "a:1;b:2", for one job of a spec on the command line.
void add_flag_job(const std::string& name, Role role, std::string_view hosts, char separator, const Position& at,
                  const SpecOptions& options, SpecBuilder& builder) {
  Job job{name, role, {}, {}, {}, {}};
  if (role == Role::kWorker) {
    job.max_tasks = options.max_workers;
    job.min_tasks = options.min_workers;
  }
  size_t index = 0;
  const bool none = hosts.empty() && job.max_tasks;  // only others, who join
  for (const std::string_view host : none ? std::vector<std::string_view>{} : split(hosts, separator)) {
    if (auto address = builder.address(name, index++, trimmed(host), at)) job.tasks.push_back(std::move(*address));
  }
  builder.add_job(std::move(job), at);
}

void apply(const SpecOptions& options, SpecBuilder& builder) {
  if (options.start_grace) builder.set_start_grace(*options.start_grace);
  if (!options.servers.empty()) builder.set_placement(options.servers, Position("--servers", 0, 0));
}

Result<ClusterSpec> finish(SpecBuilder& builder, const Diagnostics& diagnostics, const Position& at) {
  ClusterSpec spec = builder.finish(at);
  DTRAIN_TRY(diagnostics.status());
  return spec;
}

}  // namespace

std::string to_string(Role role) { return role == Role::kWorker ? "worker" : "ps"; }
std::string to_string(Placement placement) { return kPlacements[static_cast<size_t>(placement)]; }

std::string to_string(const Task& task) { return fmt::format("/job:{}/task:{}", task.job, task.index); }

ClusterSpec ClusterSpec::local() {
  ClusterSpec spec;
  spec.jobs_.push_back({"worker", Role::kWorker, {{"localhost", 0}}, {"cpu"}, {}, {}});
  spec.tasks_.push_back({"worker", 0});
  spec.listed_ = 1;
  return spec;
}

std::vector<Task> ClusterSpec::workers() const { return {tasks_.begin() + ps_tasks_, tasks_.end()}; }

std::vector<Task> ClusterSpec::servers() const {
  return {tasks_.begin(), tasks_.begin() + (placement_ == Placement::kPs ? ps_tasks_ : listed_)};
}

std::optional<int> ClusterSpec::min_workers() const {
  std::optional<int> sum;
  for (const Job& job : jobs_)
    if (job.min_tasks) sum = sum.value_or(0) + *job.min_tasks;
  if (!sum) return sum;
  for (const Job& job : jobs_)
    if (job.role == Role::kWorker && !job.min_tasks) *sum += static_cast<int>(job.tasks.size());
  return sum;
}

Result<Task> ClusterSpec::find(std::string_view job, int64_t index) const {
  std::vector<std::string> names, ranges;
  for (const Job& j : jobs_) {
    const int64_t tasks = j.max_tasks.value_or(static_cast<int>(j.tasks.size()));
    if (j.name == job && index >= 0 && index < tasks) return Task{j.name, static_cast<int>(index)};
    names.push_back(j.name);
    ranges.push_back(tasks == 1 ? fmt::format("{} 0", j.name) : fmt::format("{} 0-{}", j.name, tasks - 1));
  }
  const bool misspelt = std::find(names.begin(), names.end(), job) == names.end() && !nearest(job, names).empty();
  return fail(ExitCode::kUsage, fmt::format("this cluster has no task /job:{}/task:{}{}; it has {}", job, index,
                                            misspelt ? suggestion(job, names) : "", fmt::join(ranges, ", ")));
}

int ClusterSpec::rank_of(const Task& task) const {
  const auto at = std::find(tasks_.begin(), tasks_.end(), task);
  DTRAIN_CHECK(at != tasks_.end(), "{} is no task of this cluster", to_string(task));
  return static_cast<int>(at - tasks_.begin());
}

const Task& ClusterSpec::task_of(int rank) const {
  DTRAIN_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return tasks_[static_cast<size_t>(rank)];
}

const Job& ClusterSpec::job_of(const Task& task) const {
  for (const Job& job : jobs_) {
    if (job.name == task.job && task.index >= 0 &&
        task.index < job.max_tasks.value_or(static_cast<int>(job.tasks.size())))
      return job;
  }
  DTRAIN_CHECK(false, "{} is no task of this cluster", to_string(task));
  return jobs_.front();
}

Role ClusterSpec::role_of(const Task& task) const { return job_of(task).role; }

bool ClusterSpec::listed(const Task& task) const { return static_cast<size_t>(task.index) < job_of(task).tasks.size(); }

bool ClusterSpec::serves(const Task& task) const {
  return role_of(task) == Role::kPs || (placement_ != Placement::kPs && listed(task));
}

const TaskAddress& ClusterSpec::address_of(const Task& task) const {
  static const TaskAddress kNone;
  return listed(task) ? job_of(task).tasks[static_cast<size_t>(task.index)] : kNone;
}

const std::string& ClusterSpec::device_of(const Task& task) const {
  static const std::string kUsual = "cpu";
  return listed(task) ? job_of(task).devices[static_cast<size_t>(task.index)] : kUsual;
}

Result<ClusterSpec> read_cluster_spec(const Value& root) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  config::TableReader r(root, diagnostics, "the cluster file");
  builder.set_name(r.string("name", ""));
  builder.set_start_grace(r.number("start_grace", 10, 0, 86'400));
  const std::string servers = r.string("servers", "");
  if (r.has("servers")) builder.set_placement(servers, r.position_of("servers"));
  if (const Value* jobs = r.require_table("jobs")) {
    for (const config::Entry& entry : jobs->as_table()) read_job(entry, diagnostics, builder);
  }
  r.finish();
  return finish(builder, diagnostics, root.position());
}

Result<ClusterSpec> parse_cluster_spec(std::string_view text, const SpecOptions& options) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  const Position at("--cluster_spec", 0, 0);
  apply(options, builder);
  bool workers = false;
  for (const std::string_view part : split(text, ',')) {
    const size_t bar = part.find('|');
    const std::string name(trimmed(part.substr(0, bar)));
    if (bar == std::string_view::npos) {
      diagnostics.error(at, fmt::format("'{}': expected jobs such as worker|host:port;host:port,ps|host:port", part));
    } else if (const std::optional<Role> role = role_named(name)) {
      workers = workers || *role == Role::kWorker;
      add_flag_job(name, *role, part.substr(bar + 1), ';', at, options, builder);
    } else {
      diagnostics.error(
          at, fmt::format("unknown job '{}'{}; other names need a cluster file", name, suggestion(name, kRoles)));
    }
  }
  if (!workers && options.max_workers) add_flag_job("worker", Role::kWorker, "", ';', at, options, builder);
  return finish(builder, diagnostics, at);
}

Result<ClusterSpec> parse_host_lists(std::string_view ps_hosts, std::string_view worker_hosts,
                                     const SpecOptions& options) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  apply(options, builder);
  if (!ps_hosts.empty()) add_flag_job("ps", Role::kPs, ps_hosts, ',', Position("--ps_hosts", 0, 0), options, builder);
  const Position at("--worker_hosts", 0, 0);
  if (!worker_hosts.empty() || options.max_workers)
    add_flag_job("worker", Role::kWorker, worker_hosts, ',', at, options, builder);
  return finish(builder, diagnostics, at);
}

std::string to_string(const ClusterSpec& spec) {
  std::vector<std::string> jobs;
  for (const Job& job : spec.jobs()) {
    if (job.tasks.empty()) continue;
    std::vector<std::string> tasks;
    for (const TaskAddress& address : job.tasks) tasks.push_back(to_string(address));
    jobs.push_back(fmt::format("{}|{}", job.name, fmt::join(tasks, ";")));
  }
  return fmt::format("{}", fmt::join(jobs, ","));
}

std::string identity(const ClusterSpec& spec) {
  std::string text = to_string(spec);
  for (const Job& job : spec.jobs())
    if (job.max_tasks) text += fmt::format(", at most {} {}", *job.max_tasks, job.name);
  if (spec.has_ps() && spec.placement() == Placement::kAll) text += ", servers everywhere";
  return text;
}

}  // namespace dtrain::cluster
