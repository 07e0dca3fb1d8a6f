// Whether tasks can listen: at some port, and at those that the cluster gives to this host.
#include <fmt/format.h>

#include <sstream>

#include "base/log.h"
#include "doctor/check.h"
#include "net/asio/bound_port.h"

namespace dtrain::doctor {
namespace {

// Ports that the system gives to outgoing connections.
std::pair<int, int> passing_ports(const Surroundings& here) {
  std::istringstream range(here.line("/proc/sys/net/ipv4/ip_local_port_range"));
  std::pair<int, int> ports{0, -1};
  range >> ports.first >> ports.second;
  return ports;
}

void look(const Surroundings& here, Findings& findings) {
  NullLog quiet;
  const auto [first, last] = passing_ports(here);
  if (const auto any = net::bind_port("127.0.0.1", 0, quiet); !any)
    findings.fails(any.error().message, "a task must be able to listen: a sandbox or the network is in the way");
  else
    findings.ok(last >= first ? fmt::format("can listen; outgoing connections take the ports {} to {}", first, last)
                              : "can listen");
  for (const TaskHost& at : here.hosts_here()) {
    if (!at.here) continue;
    const std::string name = cluster::to_string(at.task);
    // Bound and given back: what a task does first.
    if (const auto bound = net::bind_port(at.host, at.port, quiet); !bound)
      findings.fails(fmt::format("{}: {}", name, bound.error().message),
                     "end that process, or give the task another port in the cluster");
    else if (at.port >= first && at.port <= last)
      findings.note(fmt::format("{}: port {} is free; an outgoing connection of any program may take it before the run "
                                "does",
                                name, at.port),
                    fmt::format("choose a port below {}", first));
    else
      findings.ok(fmt::format("{}: port {} is free", name, at.port));
  }
}

}  // namespace

const Check kPorts{"ports", look};

}  // namespace dtrain::doctor
