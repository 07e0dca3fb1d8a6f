#include "launch/task_output.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

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
  std::fwrite(all.data(), 1, all.size(), options_.stream);
  std::fflush(options_.stream);
  rewriting_ = rewrite;
}

}  // namespace dtrain::launch
