#include "doctor/surroundings.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "net/asio/socket_address.h"

namespace dtrain::doctor {
namespace {

std::optional<double> number(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  return error == std::errc() ? std::optional(x) : std::nullopt;
}

// The lesser of two limits, of which each may be none.
template <typename T>
void tighten(std::optional<T>* limit, std::optional<T> other) {
  if (other && (!*limit || *other < **limit)) *limit = other;
}

// What is no limit in version 1 is a number beyond any memory.
std::optional<uint64_t> bytes(const std::string& text) {
  const auto x = number(text);
  if (!x || *x >= 0x1p60) return std::nullopt;
  return static_cast<uint64_t>(*x);
}

// "200000 100000", or "max 100000".
std::optional<double> quota(const std::string& text) {
  std::istringstream words(text);
  std::string most, period;
  words >> most >> period;
  const auto m = number(most), p = number(period);
  if (!m || !p || *m <= 0 || *p <= 0) return std::nullopt;
  return *m / *p;
}

// A group and all above it: "/a/b", "/a", "".
std::vector<std::string> with_parents(std::string path) {
  std::vector<std::string> all;
  while (path.size() > 1) {
    all.push_back(path);
    path.resize(path.rfind('/'));
  }
  all.emplace_back();
  return all;
}

}  // namespace

std::string Surroundings::text(const std::string& path) const {
  std::ifstream file(root + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Surroundings::line(const std::string& path) const {
  const std::string all = text(path);
  return all.substr(0, all.find('\n'));
}

bool Surroundings::there(const std::string& path) const { return ::access((root + path).c_str(), F_OK) == 0; }

std::string Surroundings::field(const std::string& path, const std::string& name) const {
  std::istringstream lines(text(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    size_t at = line.find_first_not_of(" \t", name.size());
    if (at == std::string::npos || line[at] != ':') continue;
    at = line.find_first_not_of(" \t", at + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::optional<std::string> Surroundings::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

void Surroundings::resolve_hosts() {
  hosts.clear();
  if (!spec()) return;
  for (const cluster::Task& task : spec()->tasks()) {
    if (!spec()->listed(task)) continue;
    const cluster::TaskAddress& at = spec()->address_of(task);
    TaskHost& host = hosts.emplace_back(TaskHost{.task = task, .host = at.host, .port = at.port});
    const auto addresses = net::resolve(at.host, at.port);
    if (!addresses || addresses->empty()) {
      host.unresolved = addresses ? "no address" : addresses.error().message;
      continue;
    }
    host.address = addresses->front().host();
    host.loopback = addresses->front().is_loopback();
    for (const net::SocketAddress& address : *addresses) host.here = host.here || net::is_local(address);
  }
}

std::vector<TaskHost> Surroundings::hosts_here() const {
  std::vector<TaskHost> found;
  for (const TaskHost& host : hosts)
    if (self ? host.task == *self : host.here) found.push_back(host);
  return found;
}

// Lines "id:controllers:path"; version 2 has id 0 and no controllers. Inside a container the groups above are those
// that are mounted, whatever the path says: the root of the mount is looked at too.
ControlGroupLimits control_group_limits(const Surroundings& here) {
  ControlGroupLimits limits;
  std::istringstream lines(here.text("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    for (const std::string& group : with_parents(line.substr(second + 1))) {
      if (controllers == ",,") {
        for (const char* const mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
          tighten(&limits.cores, quota(here.line(mount + group + "/cpu.max")));
          tighten(&limits.memory, bytes(here.line(mount + group + "/memory.max")));
        }
      }
      if (controllers.find(",cpu,") != std::string::npos) {
        for (const char* const mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
          tighten(&limits.cores, quota(here.line(mount + group + "/cpu.cfs_quota_us") + " " +
                                       here.line(mount + group + "/cpu.cfs_period_us")));
      }
      if (controllers.find(",memory,") != std::string::npos)
        tighten(&limits.memory, bytes(here.line("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes")));
    }
  }
  return limits;
}

Cores count_cores(const Surroundings& here) {
  Cores cores;
  cores.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  cores.allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : cores.online;
  cores.usable = std::min<double>(cores.allowed, control_group_limits(here).cores.value_or(cores.allowed));
  return cores;
}

}  // namespace dtrain::doctor
