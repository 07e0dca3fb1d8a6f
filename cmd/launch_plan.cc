#include "launch_plan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/file_system.h"
#include "config/load.h"
#include "launch/hostfile.h"
#include "launch/programs.h"
#include "net/asio/socket_address.h"
#include "net/asio/unique_fd.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

constexpr uint64_t kLargestFile = 16u << 20;

std::string own_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Whether tasks of this host are started without ssh. Names are not looked up: one in ssh's configuration may mean
// anything.
bool is_here(const std::string& host) {
  if (host == "localhost" || host == own_name()) return true;
  const auto address = net::parse_address(host, 0);
  return address && (address->is_loopback() || net::is_local(*address));
}

bool is_loopback(const std::string& host) {
  const auto address = net::parse_address(host, 0);
  return host == "localhost" || (address && address->is_loopback());
}

// What ssh's configuration calls the machines behind names, for the others to dial.
std::vector<std::string> addresses_of(const launch::SshOptions& options,
                                      const std::vector<launch::SshTarget>& targets) {
  constexpr double kPatience = 10;  // seconds; a configuration may run programs
  std::vector<launch::Pipeline> questions;
  for (const launch::SshTarget& target : targets) {
    std::vector<std::string> words = launch::ssh_words(options, target);
    words.insert(words.end(), {"-G", "--", target.host});
    questions.push_back({{words}});
  }
  std::vector<std::string> out;
  for (const launch::PipelineEnd& answer : launch::run_pipelines(questions, kPatience)) {
    const std::string& host = targets[out.size()].host;
    const std::string name = answer.good ? launch::host_name_of(answer.output) : "";
    out.push_back(name.empty() ? host.substr(host.find('@') + 1) : name);
  }
  return out;
}

// A pipe will do: `scontrol show hostnames | dtrain launch … --hostfile /dev/stdin`.
Result<std::string> read_hostfile(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return fail(ExitCode::kUsage, fmt::format("the hostfile cannot be read: {}: {}", path, why));
  };
  const net::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return failed(std::strerror(errno));
  std::string text;
  char buffer[64 * 1024];
  for (ssize_t n; (n = read(fd.get(), buffer, sizeof(buffer))) != 0;) {
    if (n < 0) return failed(std::strerror(errno));
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kLargestFile) return failed("it is too large for one");
  }
  return text;
}

class Planner {
 public:
  explicit Planner(const LaunchFlags& flags) : flags_(flags) {}

  Result<LaunchPlan> plan() {
    if (!flags_.cluster.empty() && !flags_.hostfile.empty())
      return fail(ExitCode::kUsage, "--cluster says where the tasks are; leave out --hostfile");
    if (!flags_.cluster.empty()) {
      DTRAIN_TRY(from_cluster());
    } else if (!flags_.hostfile.empty()) {
      DTRAIN_TRY(from_hostfile());
    } else {
      DTRAIN_TRY(from_numbers());
    }
    mark_roles();
    const std::string& ssh = flags_.ssh.program;
    if (!plan_.here() && !in_path(ssh))
      return fail(ExitCode::kUsage,
                  fmt::format("there is no program '{}' here, by which other hosts are reached: install "
                              "openssh-client, or name it by --ssh",
                              ssh));
    return std::move(plan_);
  }

 private:
  size_t host_of(const std::string& name, bool here, const launch::SshTarget& target) {
    const auto [at, fresh] = by_name_.emplace(fmt::format("{}:{}", name, target.port), plan_.hosts.size());
    if (fresh) plan_.hosts.push_back({name, here, target, {}});
    return at->second;
  }

  Status from_cluster() {
    if (flags_.workers >= 0 || flags_.ps >= 0)
      return fail(ExitCode::kUsage, "--cluster says which tasks there are; leave out --workers and --ps");
    DTRAIN_TRY(flags_.spec.not_with_a_file());
    RealFileSystem files;
    DTRAIN_TRY_ASSIGN(plan_.cluster_text, under_code(ExitCode::kUsage, files.read_file(flags_.cluster, kLargestFile)));
    DTRAIN_TRY_ASSIGN(const config::Value root, config::load_file(flags_.cluster));
    DTRAIN_TRY_ASSIGN(plan_.given, cluster::read_cluster_spec(root));
    for (const cluster::Task& task : plan_.given->tasks()) {
      if (!plan_.given->listed(task)) break;  // these come last, and are started by whoever wants to join
      const cluster::TaskAddress& address = plan_.given->address_of(task);
      const bool here = is_here(address.host);
      // Addresses of this machine are one host, however they are written.
      const size_t host = host_of(here ? "" : address.host, here, {address.host, 0});
      plan_.tasks.push_back({task, address, host});
    }
    return {};
  }

  Status from_hostfile() {
    DTRAIN_TRY_ASSIGN(const std::string text, read_hostfile(flags_.hostfile));
    DTRAIN_TRY_ASSIGN(const auto entries, launch::parse_hostfile(text, flags_.hostfile));
    DTRAIN_TRY_ASSIGN(const auto placed, launch::place_tasks(entries, flags_.workers, std::max(flags_.ps, 0)));
    const std::vector<std::string> addresses = addresses_of_entries(entries);
    for (const launch::PlacedHostTask& task : placed) {
      const launch::HostEntry& entry = entries[task.host];
      const size_t host = host_of(entry.host, is_entry_here(entry), {entry.host, entry.ssh_port});
      plan_.tasks.push_back({task.task, {addresses[task.host], 0}, host});
    }
    // A loopback address means another machine on each of them.
    for (const auto& place : plan_.tasks)
      if (is_loopback(place.address.host) && !plan_.here() && plan_.hosts[place.host].here)
        return fail(ExitCode::kUsage,
                    fmt::format("{}: {} is this machine for itself alone, and other hosts have tasks too: name it as "
                                "they know it, or add address=ADDRESS",
                                flags_.hostfile, plan_.hosts[place.host].name));
    return {};
  }

  static bool is_entry_here(const launch::HostEntry& entry) { return entry.ssh_port == 0 && is_here(entry.host); }

  std::vector<std::string> addresses_of_entries(const std::vector<launch::HostEntry>& entries) const {
    std::vector<std::string> addresses;
    std::vector<launch::SshTarget> asked;
    for (const launch::HostEntry& entry : entries) {
      addresses.push_back(!entry.address.empty() ? entry.address : is_entry_here(entry) ? entry.host : "");
      if (addresses.back().empty()) asked.push_back({entry.host, entry.ssh_port});
    }
    const std::vector<std::string> answers = addresses_of(flags_.ssh, asked);
    for (size_t i = 0, next = 0; i < addresses.size(); ++i)
      if (addresses[i].empty()) addresses[i] = answers[next++];
    return addresses;
  }

  Status from_numbers() {
    if (flags_.workers < 1 && !flags_.spec.options.max_workers)
      return fail(ExitCode::kUsage,
                  "a run needs at least one worker: --workers N (with --ps M, or with the servers beside the workers), "
                  "--hostfile FILE, or --cluster FILE");
    for (const auto& [job, count] : {std::pair("ps", flags_.ps), {"worker", flags_.workers}})
      for (int i = 0; i < count; ++i) plan_.tasks.push_back({{job, i}, {"127.0.0.1", 0}, host_of("", true, {})});
    if (plan_.tasks.empty())
      return fail(ExitCode::kUsage, "nothing is there to start: --workers 0 needs --ps M for workers to join");
    return {};
  }

  // The part that tasks play follows from the spec, and this from all addresses: ports do not matter for it.
  void mark_roles() {
    const bool ps =
        std::any_of(plan_.tasks.begin(), plan_.tasks.end(), [](const auto& t) { return t.task.job == "ps"; });
    for (size_t i = 0; i < plan_.tasks.size(); ++i) {
      LaunchPlan::Place& place = plan_.tasks[i];
      place.number = static_cast<uint32_t>(i);
      place.coordinates = i == 0;
      if (plan_.given) {
        place.computes = plan_.given->role_of(place.task) == cluster::Role::kWorker;
        place.serves = plan_.given->serves(place.task);
      } else {
        const std::string& servers = flags_.spec.options.servers;
        place.computes = place.task.job == "worker";
        place.serves = !place.computes || !ps || servers == "all" || servers == "workers";
      }
    }
  }

  const LaunchFlags& flags_;
  LaunchPlan plan_;
  std::map<std::string, size_t> by_name_;
};

}  // namespace

bool LaunchPlan::here() const {
  return std::all_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.here; });
}

void LaunchPlan::ask_hosts(const LaunchFlags& flags, const std::string& out, const std::string& run_digest) {
  launch::Preparation common;
  common.run_file = flags.run.run_file.file;
  common.set = flags.run.run_file.set;
  common.init = flags.run.init;
  common.out = out;
  common.run_digest = run_digest;
  common.resume = flags.run.resume;
  common.auto_resume = flags.run.auto_resume;
  common.alone = here();
  common.workers = common.servers = 0;
  for (const Place& place : tasks) {
    common.workers += place.computes;
    common.servers += place.serves;
  }
  const std::string folder = flags.remote_dir.empty() ? std::filesystem::current_path().string() : flags.remote_dir;
  for (launch::WantedHost& host : hosts) {
    host.preparation = common;  // without tasks
    if (!host.here) host.preparation.folder = folder;
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    Place& place = tasks[i];
    hosts[place.host].preparation.tasks.push_back({place.number, fmt::format("{}/{}", place.task.job, place.task.index),
                                                   place.address.host, place.address.port, true, place.computes,
                                                   place.serves, place.coordinates});
  }
}

Result<LaunchPlan> plan_launch(const LaunchFlags& flags) { return Planner(flags).plan(); }

}  // namespace dtrain::cmd
