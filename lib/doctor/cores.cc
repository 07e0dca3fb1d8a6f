// How many cores there are for the threads of a run, and who else is at work on them.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

void look(const Surroundings& here, Findings& findings) {
  const Cores cores = count_cores(here);
  std::string says = fmt::format("{} core{}", cores.online, cores.online == 1 ? "" : "s");
  if (cores.allowed < cores.online) says += fmt::format(", of which this process may use {}", cores.allowed);
  if (cores.usable < cores.allowed) {
    // Threads are counted by the affinity: a quota stops all of them for the rest of its period.
    findings.slow(fmt::format("{}; the control group gives the time of {:.3g}", says, cores.usable),
                  fmt::format("set train.threads = {}, or widen the quota (cpu.max): threads beyond it stop all others",
                              std::max(1, static_cast<int>(std::floor(cores.usable)))));
  } else {
    findings.ok(says);
  }
  if (here.run && *here.run && (*here.run)->spec.train.threads) {
    const auto threads = static_cast<double>(*(*here.run)->spec.train.threads);
    if (threads > cores.usable)
      findings.slow(
          fmt::format("train.threads is {:.0f}, and there is the time of {:.3g} cores", threads, cores.usable),
          fmt::format("set train.threads = {}", std::max(1, static_cast<int>(std::floor(cores.usable)))));
  }
  const double load = std::strtod(here.line("/proc/loadavg").c_str(), nullptr);
  if (load > 0.5 * cores.online)
    findings.slow(fmt::format("others are at work: {:.1f} processes ran or waited for a core in the last minute", load),
                  "wait for their end, or give the run fewer threads");
}

}  // namespace

const Check kCores{"cores", look};

}  // namespace dtrain::doctor
