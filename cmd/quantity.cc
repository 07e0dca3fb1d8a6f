#include "quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/bandwidth.h"

namespace dtrain::cmd {

Result<double> parse_rate(const std::string& flag, const std::string& text) {
  Result<double> rate = parse_bandwidth(text);
  if (!rate) return fail(rate.error().code, fmt::format("{}: {}", flag, rate.error().message));
  return rate;
}

Result<Nanoseconds> parse_time(const std::string& flag, const std::string& text, Bare bare) {
  const bool seconds = bare == Bare::kSeconds;
  const char* const examples = seconds ? "50us, 1.5ms or 0.45 (seconds)" : "50us or 1.5ms";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc() && std::isfinite(number) && number >= 0) {
    if (rest.empty() && !seconds && number > 0)
      return fail(ExitCode::kUsage, fmt::format("{}: '{}' has no unit; write it as {}", flag, text, examples));
    for (const auto& [unit, factor] :
         {std::pair("", 1e9), std::pair("s", 1e9), std::pair("ms", 1e6), std::pair("us", 1e3), std::pair("ns", 1.0)}) {
      if (rest != unit) continue;
      if (number * factor > 1e9 * 86'400)
        return fail(ExitCode::kUsage, fmt::format("{}: '{}' is more than a day", flag, text));
      return static_cast<Nanoseconds>(number * factor);
    }
  }
  return fail(ExitCode::kUsage, fmt::format("{}: '{}' is no time; write it as {}", flag, text, examples));
}

}  // namespace dtrain::cmd
