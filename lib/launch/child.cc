#include "launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace dtrain::launch {
namespace {

constexpr size_t kLongestLine = 64 * 1024;
constexpr std::string_view kWipe = "\x1b[2K";

// What the new process becomes; made before the fork, since nothing after it may allocate.
struct Image {
  std::vector<char*> argv, environment;
  std::vector<int> keep_fds;
  int input = -1, output = -1, errors = -1;  // its first three descriptors
  pid_t parent = 0;
};

// Runs in the new process, between fork and exec.
[[noreturn]] void become(const Image& image) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != image.parent) _exit(1);  // the launcher died in between
  if (dup2(image.input, 0) < 0 || dup2(image.output, 1) < 0 || dup2(image.errors, 2) < 0) _exit(1);
  for (int fd : image.keep_fds) fcntl(fd, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGQUIT}) ::signal(number, SIG_DFL);
  execvpe(image.argv[0], image.argv.data(), image.environment.data());
  const char* const parts[] = {"dtrain: cannot start ", image.argv[0], ": ", std::strerror(errno), "\n"};
  for (const char* part : parts) (void)!write(2, part, std::strlen(part));
  _exit(127);
}

// The environment of this process with `changes` in it, terminated for exec.
std::vector<char*> environment_with(const std::vector<std::string>& changes) {
  std::vector<char*> out;
  for (char** at = environ; *at; ++at) {
    const std::string_view entry(*at);
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    // Of its own launcher's service manager, whom a task has nothing to say.
    bool kept = name != "NOTIFY_SOCKET=" && name != "WATCHDOG_USEC=" && name != "WATCHDOG_PID=";
    for (const std::string& change : changes) kept = kept && !change.starts_with(name);
    if (kept) out.push_back(*at);
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string_view name = std::string_view(changes[i]).substr(0, changes[i].find('=') + 1);
    const bool again = std::any_of(changes.begin() + static_cast<ptrdiff_t>(i) + 1, changes.end(),
                                   [&](const std::string& later) { return later.starts_with(name); });
    if (!again) out.push_back(const_cast<char*>(changes[i].c_str()));  // the last word on a name counts
  }
  out.push_back(nullptr);
  return out;
}

// A datagram socket; `name` as NOTIFY_SOCKET gives it, one that nothing else has. Other users of the host may speak
// there too, and could say no worse than that training has begun.
int notify_socket(std::string& name) {
  uint64_t drawn[2];
  if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn)) return -1;
  name = fmt::format("@dtrain-{:016x}{:016x}", drawn[0], drawn[1]);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);  // abstract: the first byte is zero
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0)
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// A file that is nowhere but here, to be read from its beginning; −1 with errno where there can be none.
int memory_file(const std::string& text) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  for (size_t done = 0; fd >= 0 && done < text.size();) {
    const ssize_t n = pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno != EINTR) {
      const int error = errno;
      close(fd);
      errno = error;
      return -1;
    }
    if (n > 0) done += static_cast<size_t>(n);
  }
  return fd;
}

class Pipe {
 public:
  Pipe() { open_ = pipe2(ends_, O_CLOEXEC) == 0; }
  ~Pipe() {
    for (int fd : ends_)
      if (fd >= 0) close(fd);
  }
  bool is_open() const { return open_; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  int take_reader() { return taken(ends_[0]); }
  int take_writer() { return taken(ends_[1]); }

 private:
  static int taken(int& end) {
    fcntl(end, F_SETFL, O_NONBLOCK);
    return std::exchange(end, -1);
  }
  int ends_[2] = {-1, -1};
  bool open_ = false;
};

}  // namespace

Result<Child> Child::start(const ChildStart& start) {
  const auto failed = [&] {
    return fail(ExitCode::kUsage, fmt::format("cannot start {}: {}", start.label, std::strerror(errno)));
  };
  Pipe output, channel_in, channel_out;
  if (!output.is_open() || !channel_in.is_open() || !channel_out.is_open()) return failed();
  Child child(start.label);
  std::vector<std::string> environment = start.environment;
  if (start.notify) {
    std::string name;
    child.notify_ = notify_socket(name);
    if (child.notify_ < 0) return failed();
    environment.push_back("NOTIFY_SOCKET=" + name);
  }
  Image image;
  for (const std::string& word : start.argv) image.argv.push_back(const_cast<char*>(word.c_str()));
  image.argv.push_back(nullptr);
  image.environment = environment_with(environment);
  image.keep_fds = start.keep_fds;
  image.parent = getpid();
  image.errors = output.writer();
  image.output = start.channel ? channel_out.writer() : output.writer();
  int own_input = -1;
  if (start.channel) {
    image.input = channel_in.reader();
  } else if (start.input_fd >= 0) {
    image.input = start.input_fd;
  } else {
    own_input = image.input = start.input ? memory_file(*start.input) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (own_input < 0) return failed();
  }
  if (start.output_fd >= 0) image.output = start.output_fd;

  // Inherited from who started this process, "ignored" would mean that the kernel keeps no exit status.
  ::signal(SIGCHLD, SIG_DFL);
  child.pid_ = fork();
  if (child.pid_ == 0) become(image);
  const int error = errno;
  if (own_input >= 0) close(own_input);
  errno = error;
  if (child.pid_ < 0) return failed();
  setpgid(child.pid_, child.pid_);  // here too: whichever comes first
  child.output_ = output.take_reader();
  if (start.channel) {
    child.channel_in_ = channel_in.take_writer();
    child.channel_out_ = channel_out.take_reader();
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : label_(std::move(other.label_)),
      pid_(other.pid_),
      output_(std::exchange(other.output_, -1)),
      channel_in_(std::exchange(other.channel_in_, -1)),
      channel_out_(std::exchange(other.channel_out_, -1)),
      notify_(std::exchange(other.notify_, -1)),
      running_(std::exchange(other.running_, false)),
      ready_(other.ready_),
      end_(std::move(other.end_)),
      partial_(std::move(other.partial_)),
      returned_(other.returned_) {}

Child::~Child() {
  for (int fd : {output_, channel_in_, channel_out_, notify_})
    if (fd >= 0) close(fd);
}

void Child::close_channel_in() {
  if (channel_in_ >= 0) close(std::exchange(channel_in_, -1));
}

void Child::signal(int number) const {
  if (running_) kill(pid_, number);
}

void Child::signal_group(int number) const {
  if (running_) kill(-pid_, number);
}

void Child::read_output(const OnLine& line) {
  char buffer[16 * 1024];
  // A writer that never stops must not keep whoever reads from all else.
  for (int pieces = 0; output_ >= 0 && pieces < 64; ++pieces) {
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
  line(text, rewrite);
}

bool Child::became_ready() {
  char text[4096];
  bool said = false;
  while (notify_ >= 0) {
    const ssize_t n = recv(notify_, text, sizeof(text), 0);
    if (n < 0) break;
    const std::string_view lines(text, static_cast<size_t>(n));
    said = said || lines.starts_with("READY=1") || lines.find("\nREADY=1") != std::string_view::npos;
  }
  return said && !std::exchange(ready_, true);
}

bool Child::reap() {
  if (!running_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  running_ = false;
  end_ = WIFSIGNALED(status) ? TaskEnd::signalled(WTERMSIG(status)) : TaskEnd::exited(WEXITSTATUS(status));
  return true;
}

}  // namespace dtrain::launch
