#include "launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace dtrain::launch {
namespace {

constexpr size_t kRememberedLines = 12;
constexpr size_t kLongestLine = 64 * 1024;
constexpr std::string_view kWipe = "\x1b[2K";

// Runs in the new process, between fork and exec: nothing here may allocate.
[[noreturn]] void become(char* const* argv, int output, int keep_fd, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the launcher died in between
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(1);
  if (keep_fd >= 0) fcntl(keep_fd, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(argv[0], argv);
  const char* message = "dtrain: cannot start itself\n";
  (void)!write(2, message, std::strlen(message));
  _exit(127);
}

}  // namespace

std::string to_string(const ChildEnd& end) {
  return end.signalled ? fmt::format("killed by signal {} ({})", end.value, strsignal(end.value))
                       : fmt::format("exit code {}", end.value);
}

Result<Child> Child::start(std::string label, const std::vector<std::string>& argv, int keep_fd) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return fail(ExitCode::kUsage, fmt::format("cannot start {}: {}", label, std::strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // Inherited from who started this process, "ignored" would mean that the kernel keeps no exit status.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(words.data(), ends[1], keep_fd, parent);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return fail(ExitCode::kUsage, fmt::format("cannot start {}: {}", label, std::strerror(errno)));
  }
  setpgid(pid, pid);  // here too: whichever comes first
  return Child(std::move(label), pid, ends[0]);
}

Child::Child(Child&& other) noexcept
    : label_(std::move(other.label_)),
      pid_(other.pid_),
      output_(std::exchange(other.output_, -1)),
      running_(std::exchange(other.running_, false)),
      end_(other.end_),
      partial_(std::move(other.partial_)),
      returned_(other.returned_),
      last_lines_(std::move(other.last_lines_)) {}

Child::~Child() {
  if (output_ >= 0) close(output_);
}

void Child::signal(int number) const {
  if (running_) kill(pid_, number);
}

void Child::read_output(const OnLine& line) {
  char buffer[16 * 1024];
  while (output_ >= 0) {
    const ssize_t n = ::read(output_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // nothing there now
    if (n == 0) {
      if (!partial_.empty()) end_line(line, false);
      close(std::exchange(output_, -1));
      return;
    }
    for (ssize_t i = 0; i < n; ++i) add(buffer[i], line);
  }
}

void Child::add(char c, const OnLine& line) {
  // Only the next character says whether a carriage return rewrites the line or is half of its end.
  if (std::exchange(returned_, false) && c != '\n' && !partial_.empty()) end_line(line, true);
  if (c == '\r') {
    returned_ = true;
  } else if (c == '\n') {
    end_line(line, false);
  } else {
    if (partial_.size() == kLongestLine) end_line(line, false);
    partial_ += c;
  }
}

void Child::end_line(const OnLine& line, bool rewrite) {
  std::string text = std::exchange(partial_, {});
  // A task that draws a bar wipes the line first. Behind a label that would wipe the label.
  while (text.starts_with(kWipe)) {
    text.erase(0, kWipe.size());
    if (text.empty() && rewrite) return;
  }
  if (!rewrite) {
    last_lines_.push_back(text);
    if (last_lines_.size() > kRememberedLines) last_lines_.pop_front();
  }
  line(text, rewrite);
}

bool Child::reap() {
  if (!running_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  running_ = false;
  end_ = WIFSIGNALED(status) ? ChildEnd{true, WTERMSIG(status)} : ChildEnd{false, WEXITSTATUS(status)};
  return true;
}

}  // namespace dtrain::launch
