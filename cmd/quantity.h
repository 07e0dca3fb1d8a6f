// Numbers with units, as flags take them: "50us", "0.45" (seconds), "25Gbps". Errors name the flag, what it says and
// what would do.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace dtrain::cmd {

// Bytes a second; see parse_bandwidth.
Result<double> parse_rate(const std::string& flag, const std::string& text);
// From 0 to a day. Without a unit: seconds, or an error where nobody would mean these.
enum class Bare { kSeconds, kRefused };
Result<Nanoseconds> parse_time(const std::string& flag, const std::string& text, Bare bare = Bare::kRefused);

}  // namespace dtrain::cmd
