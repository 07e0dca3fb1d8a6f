#include "cluster/host_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/ascii.h"

namespace dtrain::cluster {
namespace {

constexpr size_t kMaxDigits = 9;

tl::unexpected<Error> bad(std::string_view part, const std::string& what) {
  return fail(ExitCode::kUsage, fmt::format("hosts '{}': {}; write them as node[01-16,20],login", part, what));
}

// The parts between commas; those within brackets part nothing.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (text[i] != ',' || depth > 0) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits && std::all_of(text.begin(), text.end(), is_digit);
}

uint64_t number(std::string_view digits) {
  uint64_t n = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return n;
}

// "01-16,20" → the numbers as text.
Result<std::vector<std::string>> expand_numbers(std::string_view numbers, std::string_view part) {
  std::vector<std::string> out;
  for (const std::string_view item : split(numbers)) {
    const size_t dash = item.find('-');
    const std::string_view first = item.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : item.substr(dash + 1);
    if (!is_number(first) || !is_number(last))
      return bad(part, fmt::format("'{}' in brackets is no number and no range of numbers", item));
    const uint64_t from = number(first), to = number(last);
    if (to < from) return bad(part, fmt::format("the range {} runs backwards", item));
    if (to - from >= kMaxHosts - out.size()) return bad(part, fmt::format("that is more than {} hosts", kMaxHosts));
    for (uint64_t n = from; n <= to; ++n) out.push_back(fmt::format("{:0{}}", n, first.size()));
  }
  return out;
}

// One name with any number of brackets.
Result<std::vector<std::string>> expand_name(std::string_view part) {
  std::vector<std::string> names{""};
  for (std::string_view rest = part; !rest.empty();) {
    const size_t open = rest.find('[');
    const std::string_view letters = rest.substr(0, open);
    if (letters.find(']') != std::string_view::npos) return bad(part, "a ']' without its '['");
    for (std::string& name : names) name += letters;
    if (open == std::string_view::npos) break;
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return bad(part, "a '[' without its ']'");
    DTRAIN_TRY_ASSIGN(const std::vector<std::string> numbers,
                      expand_numbers(rest.substr(open + 1, close - open - 1), part));
    if (names.size() > kMaxHosts / numbers.size())
      return bad(part, fmt::format("that is more than {} hosts", kMaxHosts));
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string& name : names)
      for (const std::string& n : numbers) longer.push_back(name + n);
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view item : split(text)) {
    const std::string_view part = trimmed(item);
    if (part.empty()) return bad(text, "a name is missing");
    if (part.find_first_of(" \t\n") != std::string_view::npos) return bad(part, "a space within a name");
    DTRAIN_TRY_ASSIGN(std::vector<std::string> names, expand_name(part));
    if (names.size() > kMaxHosts - hosts.size()) return bad(text, fmt::format("that is more than {} hosts", kMaxHosts));
    hosts.insert(hosts.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  }
  return hosts;
}

}  // namespace dtrain::cluster
