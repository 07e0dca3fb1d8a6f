// What in the environment makes a run slower or other than its files say.
#include <fmt/format.h>

#include <cstdlib>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

struct Variable {
  const char* name;
  bool slow;
  const char* means;
  const char* todo;
};

constexpr Variable kTable[] = {
    {"OMP_NUM_THREADS", false, "has no say: train.threads and the cores do", "unset it, to have one thing say it"},
    {"OMP_THREAD_LIMIT", true, "keeps OpenMP from having more threads than that", "unset it"},
    {"OMP_DYNAMIC", true, "lets OpenMP take fewer threads than it is told to", "unset it"},
    {"OMP_PROC_BIND", false, "binds threads to cores: of several tasks on one host all bind to the same ones",
     "unset it where more than one task runs here"},
    {"OMP_PLACES", false, "binds threads to places: of several tasks on one host all bind to the same ones",
     "unset it where more than one task runs here"},
    {"GOMP_CPU_AFFINITY", false, "binds threads to cores: of several tasks on one host all bind to the same ones",
     "unset it where more than one task runs here"},
    {"OMP_WAIT_POLICY", true,
     "'active' lets waiting threads take cores from those that work, 'passive' makes each "
     "kernel wake them",
     "unset it"},
    {"GOMP_SPINCOUNT", true, "says how long threads wait before they sleep", "unset it"},
    {"OMP_DISPLAY_ENV", false, "makes OpenMP write to standard error", "unset it"},
    {"ONEDNN_MAX_CPU_ISA", true, "limits the instructions that oneDNN uses", "unset it, or use train.isa"},
    {"DNNL_MAX_CPU_ISA", true, "limits the instructions that oneDNN uses", "unset it, or use train.isa"},
    {"ONEDNN_VERBOSE", true, "makes oneDNN write a line for each kernel to standard output", "unset it"},
    {"DNNL_VERBOSE", true, "makes oneDNN write a line for each kernel to standard output", "unset it"},
    {"ONEDNN_JIT_PROFILE", true, "makes oneDNN write files for a profiler", "unset it"},
    {"ONEDNN_DEFAULT_FPMATH_MODE", false, "lets oneDNN round more coarsely than the run file says",
     "unset it, or use train.precision"},
    {"LD_PRELOAD", false, "puts libraries in front of others", "unset it, unless that is meant"},
    {"MALLOC_CHECK_", true, "makes the allocator check itself", "unset it"},
    {"MALLOC_PERTURB_", true, "makes the allocator fill all memory", "unset it"},
    {"MALLOC_ARENA_MAX", false, "makes threads share the allocator's arenas", "unset it, unless that is meant"},
};

void look(const Surroundings& here, Findings& findings) {
  bool quiet = true;
  for (const Variable& v : kTable) {
    const auto value = here.variable(v.name);
    if (!value || value->empty()) continue;
    quiet = false;
    const std::string says = fmt::format("{}={} {}", v.name, *value, v.means);
    v.slow ? findings.slow(says, v.todo) : findings.note(says, v.todo);
  }
  // Each is a flag that was not given; see dtrain(1).
  for (const auto& [name, value] : here.environment) {
    if (!name.starts_with("DTRAIN_")) continue;
    quiet = false;
    findings.note(fmt::format("{}={} is as good as a flag of that name", name, value),
                  "unset it, unless that is meant; the command line wins");
  }
  if (quiet) findings.ok("nothing in the environment changes a run");
}

}  // namespace

const Check kVariables{"environment", look};

}  // namespace dtrain::doctor
