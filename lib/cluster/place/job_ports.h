// Ports that all tasks of a job know without having spoken to each other, and that other jobs on the same host hardly
// have: counted from a number that follows from the job's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace dtrain::cluster {

// The first of `count` ports: `base` where the user chose one, else one from 10000 to 31999, below those that Linux
// gives to connections. The error (kUsage) says that so many do not fit.
Result<uint16_t> first_port(std::string_view job, int count, std::optional<int> base);

}  // namespace dtrain::cluster
