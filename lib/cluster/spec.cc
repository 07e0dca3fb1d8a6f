#include "cluster/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

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

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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

bool is_ipv4(std::string_view host) {
  const std::vector<std::string_view> parts = split(host, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           int value = 0;
           auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
           return code == std::errc() && end == part.data() + part.size() && part.size() <= 3 && is_digit(part[0]) &&
                  value <= 255;
         });
}

// RFC 4291, section 2.2: eight groups of up to four hexadecimal digits, "::" for some of them, perhaps an IPv4 address
// as the last two. A zone may follow (RFC 4007): fe80::1%eth0.
bool is_ipv6(std::string_view host) {
  if (const size_t zone = host.find('%'); zone != std::string_view::npos) {
    if (zone + 1 == host.size()) return false;
    host = host.substr(0, zone);
  }
  int groups = 0;
  bool gap = false;
  if (host.starts_with("::")) {
    gap = true;
    host.remove_prefix(2);
  } else if (host.starts_with(':')) {
    return false;
  }
  while (!host.empty()) {
    const std::string_view group = host.substr(0, host.find(':'));
    if (group.size() == host.size() && is_ipv4(group)) {
      groups += 2;
      host = {};
      break;
    }
    const bool hex = std::all_of(group.begin(), group.end(), [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    });
    if (group.empty() || group.size() > 4 || !hex) return false;
    ++groups;
    host.remove_prefix(group.size());
    if (host.empty()) break;
    host.remove_prefix(1);
    if (host.empty()) return false;
    if (host.front() == ':') {
      if (gap) return false;
      gap = true;
      host.remove_prefix(1);
    }
  }
  return gap ? groups < 8 : groups == 8;
}

bool is_host_name(std::string_view host) {
  if (host.empty() || host.size() > 253 || !is_alnum(host.front())) return false;
  const bool numeric = std::all_of(host.begin(), host.end(), [](char c) { return is_digit(c) || c == '.'; });
  if (numeric) return is_ipv4(host);
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; }) &&
         host.find("..") == std::string_view::npos;
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

  void add_job(Job job, const Position& at) {
    if (!is_job_name(job.name)) {
      diagnostics_.error(at, fmt::format("'{}' is no name for a job: letters, digits, '_' and '-'", job.name));
    }
    const bool again =
        std::any_of(spec_.jobs_.begin(), spec_.jobs_.end(), [&](const Job& j) { return j.name == job.name; });
    if (again) diagnostics_.error(at, fmt::format("job '{}' is there twice", job.name));
    job.devices.resize(job.tasks.size(), "cpu");
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
    for (const Role role : {Role::kPs, Role::kWorker}) {
      for (const Job& job : spec_.jobs_) {
        if (job.role != role) continue;
        for (size_t i = 0; i < job.tasks.size(); ++i) spec_.tasks_.push_back({job.name, static_cast<int>(i)});
      }
      if (role == Role::kPs) spec_.ps_tasks_ = spec_.size();
    }
    // Where a job is wrong already, it may be the one with the workers.
    if (spec_.size() == spec_.ps_tasks_ && diagnostics_.ok()) {
      diagnostics_.error(at, "the cluster has no worker: at least one task must compute gradients");
    }
    return std::move(spec_);
  }

 private:
  Diagnostics& diagnostics_;
  ClusterSpec spec_;
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

void read_job(const config::Entry& entry, Diagnostics& diagnostics, SpecBuilder& builder) {
  config::TableReader r(entry.value, diagnostics, fmt::format("job '{}'", entry.key));
  Job job{entry.key, read_role(r, entry.key, entry.key_position), {}, {}};
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
  if (listed == 0 && entry.value.is_table()) r.error("tasks", fmt::format("job '{}' has no tasks", entry.key));
  job.devices = read_devices(r, entry.key, listed);
  r.finish();
  builder.add_job(std::move(job), entry.key_position);
}

// "a:1;b:2", for one job of a spec on the command line.
void add_flag_job(const std::string& name, Role role, std::string_view hosts, char separator, const Position& at,
                  SpecBuilder& builder) {
  Job job{name, role, {}, {}};
  size_t index = 0;
  for (const std::string_view host : split(hosts, separator)) {
    if (auto address = builder.address(name, index++, trimmed(host), at)) job.tasks.push_back(std::move(*address));
  }
  builder.add_job(std::move(job), at);
}

Result<ClusterSpec> finish(SpecBuilder& builder, const Diagnostics& diagnostics, const Position& at) {
  ClusterSpec spec = builder.finish(at);
  DTRAIN_TRY(diagnostics.status());
  return spec;
}

}  // namespace

std::string to_string(Role role) { return role == Role::kWorker ? "worker" : "ps"; }

std::string to_string(const TaskAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address.host, address.port) : fmt::format("{}:{}", address.host, address.port);
}

std::string to_string(const Task& task) { return fmt::format("/job:{}/task:{}", task.job, task.index); }

ClusterSpec ClusterSpec::local() {
  ClusterSpec spec;
  spec.jobs_.push_back({"worker", Role::kWorker, {{"localhost", 0}}, {"cpu"}});
  spec.tasks_.push_back({"worker", 0});
  return spec;
}

std::vector<Task> ClusterSpec::workers() const { return {tasks_.begin() + ps_tasks_, tasks_.end()}; }

std::vector<Task> ClusterSpec::servers() const {
  return has_ps() ? std::vector<Task>{tasks_.begin(), tasks_.begin() + ps_tasks_} : tasks_;
}

Result<Task> ClusterSpec::find(std::string_view job, int64_t index) const {
  std::vector<std::string> names, ranges;
  for (const Job& j : jobs_) {
    const int64_t tasks = static_cast<int64_t>(j.tasks.size());
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
    if (job.name == task.job && task.index >= 0 && static_cast<size_t>(task.index) < job.tasks.size()) return job;
  }
  DTRAIN_CHECK(false, "{} is no task of this cluster", to_string(task));
  return jobs_.front();
}

Role ClusterSpec::role_of(const Task& task) const { return job_of(task).role; }

const TaskAddress& ClusterSpec::address_of(const Task& task) const {
  return job_of(task).tasks[static_cast<size_t>(task.index)];
}

const std::string& ClusterSpec::device_of(const Task& task) const {
  return job_of(task).devices[static_cast<size_t>(task.index)];
}

Result<TaskAddress> parse_address(std::string_view text) {
  auto bad = [text](std::string_view why) {
    return fail(ExitCode::kUsage, fmt::format("'{}' is no address: {}; expected host:port, such as 10.0.0.1:2500 or "
                                              "[::1]:2500",
                                              text, why));
  };
  std::string_view host, port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return bad("the bracket is not closed");
    host = text.substr(1, end - 1);
    if (!is_ipv6(host)) return bad("what stands in brackets is no IPv6 address");
    if (text.substr(end + 1, 1) != ":") return bad("the port is missing");
    port = text.substr(end + 2);
  } else {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return bad("the port is missing");
    if (text.find(':', colon + 1) != std::string_view::npos) return bad("an IPv6 address must stand in brackets");
    host = text.substr(0, colon);
    if (!is_host_name(host)) return bad("the host is neither a name nor an IPv4 address");
    port = text.substr(colon + 1);
  }
  unsigned value = 0;
  auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (code != std::errc() || end != port.data() + port.size() || value < 1 || value > 65535) {
    return bad("the port must be a number from 1 to 65535");
  }
  return TaskAddress{std::string(host), static_cast<uint16_t>(value)};
}

Result<ClusterSpec> read_cluster_spec(const Value& root) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  config::TableReader r(root, diagnostics, "the cluster file");
  builder.set_name(r.string("name", ""));
  if (const Value* jobs = r.require_table("jobs")) {
    for (const config::Entry& entry : jobs->as_table()) read_job(entry, diagnostics, builder);
  }
  r.finish();
  return finish(builder, diagnostics, root.position());
}

Result<ClusterSpec> parse_cluster_spec(std::string_view text) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  const Position at("--cluster_spec", 0, 0);
  for (const std::string_view part : split(text, ',')) {
    const size_t bar = part.find('|');
    const std::string name(trimmed(part.substr(0, bar)));
    if (bar == std::string_view::npos) {
      diagnostics.error(at, fmt::format("'{}': expected jobs such as worker|host:port;host:port,ps|host:port", part));
    } else if (const std::optional<Role> role = role_named(name)) {
      add_flag_job(name, *role, part.substr(bar + 1), ';', at, builder);
    } else {
      diagnostics.error(
          at, fmt::format("unknown job '{}'{}; other names need a cluster file", name, suggestion(name, kRoles)));
    }
  }
  return finish(builder, diagnostics, at);
}

Result<ClusterSpec> parse_host_lists(std::string_view ps_hosts, std::string_view worker_hosts) {
  Diagnostics diagnostics;
  SpecBuilder builder(diagnostics);
  if (!ps_hosts.empty()) add_flag_job("ps", Role::kPs, ps_hosts, ',', Position("--ps_hosts", 0, 0), builder);
  const Position at("--worker_hosts", 0, 0);
  if (!worker_hosts.empty()) add_flag_job("worker", Role::kWorker, worker_hosts, ',', at, builder);
  return finish(builder, diagnostics, at);
}

std::string to_string(const ClusterSpec& spec) {
  std::vector<std::string> jobs;
  for (const Job& job : spec.jobs()) {
    std::vector<std::string> tasks;
    for (const TaskAddress& address : job.tasks) tasks.push_back(to_string(address));
    jobs.push_back(fmt::format("{}|{}", job.name, fmt::join(tasks, ";")));
  }
  return fmt::format("{}", fmt::join(jobs, ","));
}

}  // namespace dtrain::cluster
