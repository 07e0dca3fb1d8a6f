// The instruction sets of the processor, and which of them dtrain makes use of.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "doctor/check.h"
#include "ops/cpu/fingerprint.h"

namespace dtrain::doctor {
namespace {

// As /proc/cpuinfo names them, the weakest first.
constexpr const char* kWanted[] = {"sse4_1",  "sse4_2",      "avx",         "avx2",     "fma",     "f16c",
                                   "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_bf16"};

void look(const Surroundings& here, Findings& findings) {
  const std::string model = here.field("/proc/cpuinfo", "model name");
  std::istringstream flags(here.field("/proc/cpuinfo", "flags"));
  const std::vector<std::string> all{std::istream_iterator<std::string>(flags), {}};
  std::string has;
  bool avx2 = false, avx512 = false;
  for (const std::string wanted : kWanted) {
    if (std::find(all.begin(), all.end(), wanted) == all.end()) continue;
    has += (has.empty() ? "" : " ") + wanted;
    avx2 = avx2 || wanted == "avx2";
    avx512 = avx512 || wanted == "avx512f";
  }
  const std::string used = ops::cpu::isa_in_use();
  const std::string says = fmt::format("{}: {}; convolutions and products use {}, sums and optimizers {}",
                                       model.empty() ? "a processor without a name" : model,
                                       has.empty() ? "no vector instructions" : has, used,
                                       avx512 ? "AVX-512"
                                       : avx2 ? "AVX2"
                                              : "SSE2");
  if (!has.empty() && !avx2)
    findings.slow(says,
                  "a processor with AVX2 computes two to four times as fast; of a virtual machine its "
                  "configuration may hide them (QEMU: -cpu host)");
  else if (here.variable("ONEDNN_MAX_CPU_ISA") || here.variable("DNNL_MAX_CPU_ISA"))
    findings.slow(says,
                  "ONEDNN_MAX_CPU_ISA in the environment limits what is used: unset it, or say it in the run "
                  "file by train.isa, which all tasks share");
  else
    findings.ok(says);
}

}  // namespace

const Check kProcessor{"processor", look};

}  // namespace dtrain::doctor
