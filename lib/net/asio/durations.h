// Spans of time for timers and for people.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "base/clock.h"

namespace dtrain::net {

constexpr std::chrono::nanoseconds duration(Nanoseconds ns) { return std::chrono::nanoseconds(ns); }
inline std::string seconds(Nanoseconds ns) { return fmt::format("{:g} s", static_cast<double>(ns) / kSecond); }

}  // namespace dtrain::net
