// TOML 1.0 text to values. The one place that knows the TOML library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/value.h"

namespace dtrain::config {

constexpr size_t kMaxFileBytes = 16 << 20;
constexpr int kMaxNesting = 64;  // of lists, inline tables and the parts of a dotted key

// The root table of `text`; `file` is what positions say. Errors: bad syntax or UTF-8, too large, too deep, a date
// (nothing in a configuration is one).
Result<Value> parse_toml(std::string_view text, const std::string& file);

}  // namespace dtrain::config
