// How much memory there is, and whether what is to run fits.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "doctor/check.h"
#include "node/memory_estimate.h"
#include "ps/block_table.h"

namespace dtrain::doctor {
namespace {

constexpr double kGiB = 1u << 30;

double kilobytes(const Surroundings& here, const char* name) {
  return 1024 * std::strtod(here.field("/proc/meminfo", name).c_str(), nullptr);
}

// What the tasks of this host take together.
Result<double> needed(const Surroundings& here, std::string* whose) {
  const node::RunDefinition& run = **here.run;
  const cluster::ClusterSpec* spec = here.spec();
  if (!spec) {
    *whose = "the run in one process";
    const ps::BlockTable table(run.network->parameters(), 1);
    DTRAIN_TRY_ASSIGN(
        const auto memory,
        node::estimate_memory_alone(run, table, static_cast<uint32_t>(node::micro_batches_of(run.spec.train, 1))));
    return memory.process();
  }
  DTRAIN_TRY_ASSIGN(const auto memory, node::estimate_memory_of(run, static_cast<uint32_t>(spec->workers().size()),
                                                                static_cast<uint32_t>(spec->servers().size())));
  double bytes = 0;
  size_t tasks = 0;
  for (const TaskHost& at : here.hosts_here()) {
    ++tasks;
    if (spec->role_of(at.task) == cluster::Role::kWorker) bytes += memory.worker();
    if (spec->serves(at.task)) bytes += memory.server();
  }
  *whose = fmt::format("the {} task{} of this host", tasks, tasks == 1 ? "" : "s");
  return bytes;
}

void look(const Surroundings& here, Findings& findings) {
  const double total = kilobytes(here, "MemTotal"), available = kilobytes(here, "MemAvailable");
  const auto limit = control_group_limits(here).memory;
  double most = total;
  std::string says = fmt::format("{:.1f} GiB, {:.1f} GiB of it free", total / kGiB, available / kGiB);
  if (limit && static_cast<double>(*limit) < total) {
    most = static_cast<double>(*limit);
    says += fmt::format("; the control group allows {:.1f} GiB", most / kGiB);
  }
  if (!here.run || !*here.run) return findings.ok(says);

  std::string whose;
  const auto bytes = needed(here, &whose);
  if (!bytes) return findings.note(says, "what the run needs cannot be said: " + bytes.error().message);
  if (*bytes == 0) return findings.ok(says);
  says += fmt::format("; {} need{} {:.2f} GiB beside the data", whose, whose.ends_with("s of this host") ? "" : "s",
                      *bytes / kGiB);
  if (*bytes > most)
    findings.fails(says,
                   "give smaller batches or micro-batches, more hosts, or more memory; dtrain check says what "
                   "takes it");
  else if (*bytes > available)
    findings.slow(says, "others have the memory: end them, or the system swaps or kills");
  else
    findings.ok(says);
}

}  // namespace

const Check kMemory{"memory", look};

}  // namespace dtrain::doctor
