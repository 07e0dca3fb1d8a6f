#include "service.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace dtrain::cmd {
namespace {

std::optional<std::string> take(const char* name) {
  const char* const value = std::getenv(name);
  if (!value) return std::nullopt;
  std::string text = value;
  unsetenv(name);
  return text;
}

std::optional<int64_t> number(const std::optional<std::string>& text) {
  int64_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

}  // namespace

observe::ServiceNotifier service_of_environment(Log& log) {
  const std::optional<std::string> address = take("NOTIFY_SOCKET"), pid = take("WATCHDOG_PID");
  const std::optional<int64_t> microseconds = number(take("WATCHDOG_USEC"));
  if (!address || address->empty()) return {};
  std::optional<Nanoseconds> watchdog;
  const bool meant = !pid || number(pid) == getpid();
  if (meant && microseconds && *microseconds > 0 && *microseconds < INT64_MAX / kMicrosecond)
    watchdog = *microseconds * kMicrosecond;
  auto notifier = observe::ServiceNotifier::open(*address, watchdog);
  if (notifier) return std::move(*notifier);
  log.warning("the service manager hears nothing of this process: NOTIFY_SOCKET: {}", notifier.error().message);
  return {};
}

}  // namespace dtrain::cmd
