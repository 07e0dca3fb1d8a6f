#include "base/bandwidth.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace dtrain {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Bytes a second in one of the unit; 0 for an unknown one.
double unit(std::string_view text) {
  double prefix = 1;
  constexpr std::string_view kPrefixes = "KMGT";
  if (!text.empty()) {
    const char letter = text[0] >= 'a' && text[0] <= 'z' ? static_cast<char>(text[0] - 'a' + 'A') : text[0];
    if (const size_t at = kPrefixes.find(letter); at != std::string_view::npos) {
      text.remove_prefix(1);
      const bool binary = text.starts_with('i');
      if (binary) text.remove_prefix(1);
      prefix = std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(at + 1));
    }
  }
  if (text == "bps" || text == "b/s" || text == "bit/s" || text == "bits/s") return prefix / 8;
  if (text == "Bps" || text == "B/s" || text == "Byte/s" || text == "Bytes/s") return prefix;
  return 0;
}

}  // namespace

Result<double> parse_bandwidth(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(
        ExitCode::kUsage,
        fmt::format("'{}' is no bandwidth: {}; expected one such as 10Gbps, 1Gbit/s, 125MB/s or 1GiB/s", text, why));
  };
  const std::string_view rest = trimmed(text);
  double number = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (code != std::errc()) return bad("it does not begin with a number");
  const std::string_view name = trimmed(rest.substr(static_cast<size_t>(end - rest.data())));
  if (name.empty()) return bad("the unit is missing");
  const double bytes = number * unit(name);
  if (unit(name) == 0) return bad(fmt::format("'{}' is no unit of it", name));
  if (!std::isfinite(bytes) || bytes <= 0) return bad("it must be more than 0");
  if (bytes < unit("bps")) return bad("it must be at least 1 bit/s");
  return bytes;
}

std::string bandwidth_text(double bytes_a_second) {
  double bits = bytes_a_second * 8;
  const char* const prefixes[] = {"", "K", "M", "G", "T"};
  size_t p = 0;
  for (; bits >= 1000 && p + 1 < std::size(prefixes); ++p) bits /= 1000;
  return fmt::format("{:.3g} {}bit/s", bits, prefixes[p]);
}

}  // namespace dtrain
