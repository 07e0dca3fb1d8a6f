// The variables that a process was started with, handed in: what engines say in them is read here and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace dtrain::cluster {

// The value of a variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// As the environment says it, but an empty value is none.
std::optional<std::string> variable(const Environment& environment, const std::string& name);

// REQUIRES: the variable is set. The error says "NAME=value is no number from min to max".
Result<int64_t> number_in(const Environment& environment, const std::string& name, int64_t min, int64_t max);

// "NAME=value" of those that are set, with commas between them.
std::string said(const Environment& environment, std::initializer_list<const char*> names);

}  // namespace dtrain::cluster
