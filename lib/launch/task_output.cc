#include "launch/task_output.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

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

// Past the stream's own lock, on which the end of the process would wait while this stands still.
void write_all(std::FILE* stream, const std::string& text) {
  const int fd = fileno(stream);
  if (fd < 0) {  // it lies in memory
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
    return;
  }
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno == EAGAIN) {  // somebody has made the terminal so
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return;
    }
  }
}

}  // namespace

bool is_meant(const std::string& pattern, const std::string& task) {
  const std::string job = task.substr(0, task.find('/'));
  return fnmatch(pattern.c_str(), task.c_str(), 0) == 0 ||
         (pattern.find('/') == std::string::npos && fnmatch(pattern.c_str(), job.c_str(), 0) == 0);
}

TaskOutput::TaskOutput(TaskOutputOptions options) : options_(std::move(options)), queue_(std::make_shared<Queue>()) {
  // Signals are the other thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::thread([queue = queue_, stream = options_.stream] { write_queue(queue, stream); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TaskOutput::~TaskOutput() {
  const bool written = flush();
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ending = true;
    queue_->text.clear();
  }
  queue_->changed.notify_all();
  if (written)
    writer_.join();
  else
    writer_.detach();  // it stands in a write that nobody reads, and ends with the process
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
    logs_[task].reset(file);
  }
  return {};
}

bool TaskOutput::shown(const std::string& task) const {
  return options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(),
                                              [&](const std::string& pattern) { return is_meant(pattern, task); });
}

bool TaskOutput::write_log(std::FILE& log, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), &log) == text.size() && std::fputc('\n', &log) != EOF &&
         std::fflush(&log) == 0;
}

void TaskOutput::line(const std::string& task, const std::string& text, bool rewrite) {
  if (const auto log = logs_.find(task); log != logs_.end() && !rewrite && !write_log(*log->second, text)) {
    say(fmt::format("the log of {} in {} ends here: {}", task, options_.log_folder, std::strerror(errno)));
    logs_.erase(log);
  }
  if (shown(task)) print(task, text, rewrite);
}

void TaskOutput::say(const std::string& text) { print(kLauncher, text, false); }

void TaskOutput::print(const std::string& label, const std::string& text, bool rewrite) {
  const bool colour = options_.colour && label != kLauncher;
  const std::string all = fmt::format("{}{}[{}]{} {}{}", rewriting_ ? "\r\x1b[2K" : "", colour ? colour_of(label) : "",
                                      label, colour ? "\x1b[0m" : "", text, rewrite ? "" : "\n");
  constexpr size_t kMost = 4u << 20;
  const std::lock_guard lock(queue_->mutex);
  if (queue_->text.size() + all.size() > kMost) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0)
    queue_->text += fmt::format("[{}] {} lines are not shown: nobody read them\n", kLauncher, left_out_);
  left_out_ = 0;
  queue_->text += all;
  rewriting_ = rewrite;
  queue_->changed.notify_all();
}

bool TaskOutput::flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(queue_->mutex);
  return queue_->changed.wait_for(lock, patience, [this] { return queue_->text.empty() && !queue_->writing; });
}

void TaskOutput::write_queue(const std::shared_ptr<Queue>& queue, std::FILE* stream) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return !queue->text.empty() || queue->ending; });
    if (queue->text.empty()) return;
    const std::string text = std::exchange(queue->text, {});
    queue->writing = true;
    lock.unlock();
    write_all(stream, text);
    lock.lock();
    queue->writing = false;
    queue->changed.notify_all();
  }
}

}  // namespace dtrain::launch
