// What the system lets one process have.
#include <fmt/format.h>
#include <sys/resource.h>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

// Of a run in one process; of a task for its loop, listeners, memory and checkpoints; and of that for each peer a
// connection. Measured, rounded up a little.
constexpr rlim_t kAlone = 12, kTask = 16, kPeer = 1;

rlimit of(__rlimit_resource what) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(what, &limit);
  return limit;
}

void look_at_files(const Surroundings& here, Findings& findings) {
  const rlimit files = of(RLIMIT_NOFILE);
  const cluster::ClusterSpec* spec = here.spec();
  const rlim_t needed = spec ? kTask + kPeer * static_cast<rlim_t>(spec->size()) : kAlone;
  const std::string says =
      fmt::format("{} open files", files.rlim_cur == RLIM_INFINITY ? "any number of" : std::to_string(files.rlim_cur));
  if (files.rlim_cur >= needed && files.rlim_cur >= 64) return findings.ok(says);
  const rlim_t wanted = std::max<rlim_t>(needed, 1024);
  std::string todo = fmt::format("ulimit -n {}", wanted);
  if (files.rlim_max != RLIM_INFINITY && files.rlim_max < wanted)
    todo += fmt::format(" (the hard limit is {}: that takes root, in /etc/security/limits.conf or LimitNOFILE=)",
                        files.rlim_max);
  if (files.rlim_cur < needed)
    findings.fails(fmt::format("{}, and {} needs about {}", says, spec ? "a task of this cluster" : "a run", needed),
                   todo);
  else
    findings.note(says + ": enough for this, and few for a cluster", todo);
}

void look_at_size(const char* name, __rlimit_resource what, const char* option, Findings& findings) {
  const rlimit limit = of(what);
  if (limit.rlim_cur == RLIM_INFINITY) return;
  findings.note(fmt::format("{} limited to {} MiB", name, limit.rlim_cur >> 20),
                fmt::format("ulimit {} unlimited, unless that is meant", option));
}

void look(const Surroundings& here, Findings& findings) {
  look_at_files(here, findings);
  look_at_size("address space", RLIMIT_AS, "-v", findings);
  look_at_size("the size of a file", RLIMIT_FSIZE, "-f", findings);
  look_at_size("the data segment", RLIMIT_DATA, "-d", findings);
  // Nothing is locked into memory, so that this limit holds nobody back.
  const rlimit locked = of(RLIMIT_MEMLOCK);
  findings.ok(locked.rlim_cur == RLIM_INFINITY
                  ? "locked memory: any amount; dtrain locks none"
                  : fmt::format("locked memory: {} KiB; dtrain locks none", locked.rlim_cur >> 10));
}

}  // namespace

const Check kLimits{"limits", look};

}  // namespace dtrain::doctor
