// What `check` says of placements: the bytes that tasks send and receive in a step, and which placement is the
// cheapest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "consistency/admission_rule.h"
#include "node/traffic_estimate.h"
#include "tensor/parameter.h"

namespace dtrain::cmd {

// --bandwidth: "10Gbps" for all links, or "ps=25Gbps,worker=1Gbps". Nothing for "".
Result<std::optional<node::Bandwidths>> read_bandwidths(const std::string& text);

// Every placement that these tasks allow; nothing where there is one task alone.
void print_traffic(const std::vector<ParameterInfo>& parameters, const node::TaskCounts& tasks, uint32_t micro_batches,
                   const consistency::Mode& mode, const node::TravelForm& form,
                   const std::optional<node::Bandwidths>& bandwidths);

}  // namespace dtrain::cmd
