#include "observe/task_log.h"

namespace dtrain::observe {

void TaskLog::write(LogLevel level, std::string_view message) {
  if (level < least_) return;
  const std::string_view mark = level == LogLevel::kWarning ? "warning: " : level == LogLevel::kError ? "error: " : "";
  const std::string line = fmt::format("{}{}{}\n", prefix_, mark, message);
  std::lock_guard lock(mutex_);
  if (before_line_) before_line_();
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fflush(stream_);
}

void TaskLog::before_line(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  before_line_ = std::move(action);
}

}  // namespace dtrain::observe
