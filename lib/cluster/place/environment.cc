#include "cluster/place/environment.h"

#include <fmt/format.h>

#include <charconv>

namespace dtrain::cluster {

std::optional<std::string> variable(const Environment& environment, const std::string& name) {
  std::optional<std::string> value = environment(name);
  if (value && value->empty()) value.reset();
  return value;
}

Result<int64_t> number_in(const Environment& environment, const std::string& name, int64_t min, int64_t max) {
  const std::string text = variable(environment, name).value_or("");
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < min || n > max)
    return fail(ExitCode::kUsage, fmt::format("{}={} is no number from {} to {}", name, text, min, max));
  return n;
}

std::string said(const Environment& environment, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const auto value = variable(environment, name))
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, *value);
  return text;
}

}  // namespace dtrain::cluster
