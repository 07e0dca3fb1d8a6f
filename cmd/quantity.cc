#include "quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

namespace dtrain::cmd {
namespace {

using Units = std::vector<std::pair<const char*, double>>;

Result<double> parse(const std::string& text, const Units& units, const char* example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && std::isfinite(number) && number >= 0)
    for (const auto& [unit, factor] : units)
      if (std::string(end, text.data() + text.size()) == unit) return number * factor;
  return fail(ExitCode::kUsage, fmt::format("'{}' is no such quantity; write it as {}", text, example));
}

}  // namespace

Result<double> parse_rate(const std::string& text) {
  static const Units units{{"bps", 0.125},   {"Kbps", 125},   {"Mbps", 125e3},   {"Gbps", 125e6},
                           {"B/s", 1},       {"KB/s", 1e3},   {"MB/s", 1e6},     {"GB/s", 1e9},
                           {"bit/s", 0.125}, {"Kbit/s", 125}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}};
  DTRAIN_TRY_ASSIGN(const double rate, parse(text, units, "25Gbps, 200Mbps or 3.1GB/s"));
  if (rate == 0) return fail(ExitCode::kUsage, fmt::format("nothing passes at '{}'", text));
  return rate;
}

Result<Nanoseconds> parse_time(const std::string& text) {
  static const Units units{{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  DTRAIN_TRY_ASSIGN(const double time, parse(text, units, "50us, 1.5ms or 0.45 (seconds)"));
  if (time > 1e9 * 86'400) return fail(ExitCode::kUsage, fmt::format("'{}' is more than a day", text));
  return static_cast<Nanoseconds>(time);
}

}  // namespace dtrain::cmd
