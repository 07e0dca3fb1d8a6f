#include "launch/task_output.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dtrain::launch {
namespace {

constexpr const char* kLauncher = "launch";

// The same colour for the same task in every run; red is for errors.
const char* colour_of(const std::string& task) {
  constexpr const char* kColours[] = {"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m",
                                      "\x1b[96m", "\x1b[93m", "\x1b[92m", "\x1b[95m", "\x1b[94m"};
  unsigned sum = 0;
  for (unsigned char c : task) sum = sum * 31 + c;
  return kColours[sum % std::size(kColours)];
}

}  // namespace

bool is_meant(const std::string& pattern, const std::string& task) {
  const std::string job = task.substr(0, task.find('/'));
  return fnmatch(pattern.c_str(), task.c_str(), 0) == 0 ||
         (pattern.find('/') == std::string::npos && fnmatch(pattern.c_str(), job.c_str(), 0) == 0);
}

TaskOutput::TaskOutput(TaskOutputOptions options) : options_(std::move(options)) {
  // Signals are the other thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::thread([this] { write_queue(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TaskOutput::~TaskOutput() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

Status TaskOutput::open_logs(const std::vector<std::string>& tasks) {
  if (options_.log_folder.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(options_.log_folder, failed);
  if (failed)
    return fail(ExitCode::kUsage, fmt::format("cannot make the folder of logs {}: {}; --log_dir names another one",
                                              options_.log_folder, failed.message()));
  for (const std::string& task : tasks) {
    std::string name = task;
    std::replace(name.begin(), name.end(), '/', '-');
    const std::string path = options_.log_folder + "/" + name + ".log";
    std::FILE* file = std::fopen(path.c_str(), "ae");
    if (!file)
      return fail(ExitCode::kUsage,
                  fmt::format("cannot write {}: {}; --log_dir names another folder", path, std::strerror(errno)));
    std::setvbuf(file, nullptr, _IOLBF, 0);
    logs_[task].reset(file);
  }
  return {};
}

bool TaskOutput::shown(const std::string& task) const {
  return options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(),
                                              [&](const std::string& pattern) { return is_meant(pattern, task); });
}

void TaskOutput::line(const std::string& task, const std::string& text, bool rewrite) {
  if (const auto log = logs_.find(task); log != logs_.end() && !rewrite) fmt::print(log->second.get(), "{}\n", text);
  if (shown(task)) print(task, text, rewrite);
}

void TaskOutput::say(const std::string& text) { print(kLauncher, text, false); }

void TaskOutput::print(const std::string& label, const std::string& text, bool rewrite) {
  const bool colour = options_.colour && label != kLauncher;
  const std::string all = fmt::format("{}{}[{}]{} {}{}", rewriting_ ? "\r\x1b[2K" : "", colour ? colour_of(label) : "",
                                      label, colour ? "\x1b[0m" : "", text, rewrite ? "" : "\n");
  constexpr size_t kMost = 4u << 20;
  const std::lock_guard lock(mutex_);
  if (queue_.size() + all.size() > kMost) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) queue_ += fmt::format("[{}] {} lines are not shown: nobody read them\n", kLauncher, left_out_);
  left_out_ = 0;
  queue_ += all;
  rewriting_ = rewrite;
  changed_.notify_all();
}

void TaskOutput::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !writing_; });
}

void TaskOutput::write_queue() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || ending_; });
    if (queue_.empty()) return;
    const std::string text = std::exchange(queue_, {});
    writing_ = true;
    lock.unlock();
    std::fwrite(text.data(), 1, text.size(), options_.stream);
    std::fflush(options_.stream);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace dtrain::launch
