// Where a task's words go. A Log is handed down; every line carries the name of its task. Thread-safe implementations.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace dtrain {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  virtual ~Log() = default;
  virtual void write(LogLevel level, std::string_view message) = 0;

  template <typename... A>
  void info(fmt::format_string<A...> f, A&&... a) {
    write(LogLevel::kInfo, fmt::format(f, std::forward<A>(a)...));
  }
  template <typename... A>
  void warning(fmt::format_string<A...> f, A&&... a) {
    write(LogLevel::kWarning, fmt::format(f, std::forward<A>(a)...));
  }
  template <typename... A>
  void error(fmt::format_string<A...> f, A&&... a) {
    write(LogLevel::kError, fmt::format(f, std::forward<A>(a)...));
  }
  template <typename... A>
  void debug(fmt::format_string<A...> f, A&&... a) {
    write(LogLevel::kDebug, fmt::format(f, std::forward<A>(a)...));
  }
};

// Swallows everything; for tests and simulations.
class NullLog final : public Log {
 public:
  void write(LogLevel, std::string_view) override {}
};

}  // namespace dtrain
