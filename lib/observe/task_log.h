// The Log of one task: lines on a stream, each with the task's name in front where it has one. Thread-safe.
#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

#include "base/log.h"

namespace dtrain::observe {

class TaskLog final : public Log {
 public:
  // `prefix` may be empty. Lines below `least` are dropped. The stream is borrowed.
  TaskLog(std::FILE* stream, std::string prefix, LogLevel least = LogLevel::kInfo)
      : stream_(stream), prefix_(std::move(prefix)), least_(least) {}

  void write(LogLevel level, std::string_view message) override;
  // Called before each line, so that a progress bar can leave the line first.
  void before_line(std::function<void()> action);

 private:
  std::FILE* stream_;
  std::string prefix_;
  LogLevel least_;
  std::mutex mutex_;
  std::function<void()> before_line_;
};

}  // namespace dtrain::observe
