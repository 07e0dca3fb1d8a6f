// Who says which tasks there are, and whether their names mean hosts that can reach each other.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

void look_at_hosts(const Surroundings& here, Findings& findings) {
  const bool one_host = std::all_of(here.hosts.begin(), here.hosts.end(), [](const TaskHost& h) { return h.loopback; });
  for (const TaskHost& at : here.hosts) {
    const std::string name = cluster::to_string(at.task);
    if (!at.unresolved.empty())
      findings.fails(fmt::format("{}: {}", name, at.unresolved),
                     "correct the name in the cluster, or give it an address in /etc/hosts or DNS");
    else if (at.loopback && !one_host)
      findings.fails(
          fmt::format("{} is at {}, which is {} here: no other host can reach that", name, at.host, at.address),
          "list it by an address of the network that the hosts share");
  }
}

// Who of all that could say which task this is does so.
void look_at_sources(const Surroundings& here, Findings& findings) {
  for (const cluster::Finding& source : here.sources) {
    const std::string says = fmt::format("{}{}{}", source.source, source.text.empty() ? "" : ": ", source.text);
    if (source.says == cluster::Says::kWins)
      findings.ok("decided by " + says);
    else if (source.says == cluster::Says::kToo)
      findings.note("not looked at, since another goes before it: " + says,
                    fmt::format("unset its variables ({}) if that is not meant", source.variables));
    else if (source.says == cluster::Says::kNonsense && !(here.cluster && !*here.cluster))
      findings.note(says, fmt::format("correct its variables ({}), or unset them", source.variables));
  }
}

void look(const Surroundings& here, Findings& findings) {
  look_at_sources(here, findings);
  if (!here.cluster) return findings.ok("none: a run would be one process");
  if (!*here.cluster)
    return findings.fails(here.cluster->error().message, "correct it, or unset it to run in one process");
  const cluster::ClusterSpec& spec = *here.spec();
  findings.ok(fmt::format("{} task{}: {} worker{}, {} with parameters{}", spec.size(), spec.size() == 1 ? "" : "s",
                          spec.workers().size(), spec.workers().size() == 1 ? "" : "s", spec.servers().size(),
                          here.self ? "; this process is " + cluster::to_string(*here.self) : ""));
  look_at_hosts(here, findings);
  if (here.hosts_here().empty() || (here.self && spec.listed(*here.self) && !here.hosts_here().front().here))
    findings.note(here.self ? fmt::format("{} is not at an address of this host", cluster::to_string(*here.self))
                            : "none of its tasks is at an address of this host",
                  "start them on the hosts that the cluster names");
}

}  // namespace

const Check kCluster{"cluster", look};

}  // namespace dtrain::doctor
