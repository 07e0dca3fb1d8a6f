// Where the time of a training step goes, as text and as JSON: by op and by layer, with what each achieves of the
// machine's measured peak.
#pragma once

#include <string>

#include "graph/network.h"
#include "ops/cpu/machine_peak.h"
#include "worker/engine/op_profile.h"

namespace dtrain::cmd {

std::string profile_text(const worker::OpProfile& profile, const graph::Network& network,
                         const ops::cpu::MachinePeak& peak);
// {"peak_gflops": …, "peak_gbytes": …, "step_ms": …, "ops": [{"op", "layer", "implementation", "ms", "gflops", …}]}
std::string profile_json(const worker::OpProfile& profile, const graph::Network& network,
                         const ops::cpu::MachinePeak& peak);

}  // namespace dtrain::cmd
