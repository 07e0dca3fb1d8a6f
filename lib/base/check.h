// DTRAIN_CHECK: invariants that only a bug can break. They stay on in every build; a failure prints file, line and
// message on standard error and ends the process with exit code 1.
#pragma once

#include <fmt/format.h>

#include <string>

namespace dtrain {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace dtrain

#define DTRAIN_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::dtrain::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
