// Numbers with units, as flags take them: "25Gbps", "1.5GB/s", "50us", "0.45" (seconds).
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace dtrain::cmd {

// Bytes per second; the error names the text and what would do.
Result<double> parse_rate(const std::string& text);
// Without a unit: seconds.
Result<Nanoseconds> parse_time(const std::string& text);

}  // namespace dtrain::cmd
