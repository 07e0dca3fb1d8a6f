#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/exit_code.h"

namespace dtrain::cmd {

std::atomic<int> interrupts{0};

namespace {
std::atomic<bool> started_by_engine{false};

void on_signal(int number) {
  if (number == SIGTERM && started_by_engine && interrupts >= 1) return;
  if (interrupts.fetch_add(1) >= 1) _exit(static_cast<int>(ExitCode::kInterrupted));
}
}  // namespace

void catch_signals(bool of_engine) {
  started_by_engine = of_engine;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void wait_for_interrupt() {
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  sigprocmask(SIG_BLOCK, &both, &before);  // so that none slips in between the look and the wait
  while (interrupts.load() == 0) sigsuspend(&before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

Status claim_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // stays open: the lock is the process's
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  close(fd);
  return fail(ExitCode::kUsage, fmt::format("another process is writing into {}: wait for its end, or end it", path));
}

namespace {
// Of any thread. What a machine cannot give is no bug: memory, threads.
[[noreturn]] void on_uncaught() {
  ExitCode code = ExitCode::kBug;
  std::string message = "dtrain: bug: an unknown exception\n";
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    code = ExitCode::kUsage;
    message = "dtrain: out of memory: give smaller batches or more memory; dtrain check says what a run takes\n";
  } catch (const std::length_error&) {
    code = ExitCode::kUsage;
    message = "dtrain: out of memory: something in the configuration asks for more than can be addressed\n";
  } catch (const std::system_error& e) {
    code = ExitCode::kUsage;
    message = std::string("dtrain: the system refuses: ") + e.what() + "\n";
  } catch (const std::exception& e) {
    message = std::string("dtrain: bug: ") + e.what() + "\n";
  } catch (...) {
  }
  (void)!write(STDERR_FILENO, message.data(), message.size());
  _exit(static_cast<int>(code));
}
}  // namespace

void prepare_process() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);  // the lowest free descriptor: this one
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(on_uncaught);
}

bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int end_process(ExitCode code) {
  const bool whole = std::fflush(stdout) == 0 && !std::ferror(stdout);
  // Whoever reads may have read enough, as `head` does. What was not written by then never will be.
  if (!whole && reader_is_gone()) {
    (void)!freopen("/dev/null", "w", stdout);
    return static_cast<int>(code);
  }
  if (whole || code != ExitCode::kDone) return static_cast<int>(code);
  std::fputs("dtrain: the output could not be written\n", stderr);
  return static_cast<int>(ExitCode::kUsage);
}

uint64_t random_incarnation() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
}

Digest random_nonce() {
  Digest nonce;
  // So few bytes come whole; before the kernel has gathered enough chance it waits.
  DTRAIN_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

cluster::Environment process_environment() {
  return [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

uint32_t offered_threads(const config::TrainSpec& train, const cluster::ClusterSpec& spec, const cluster::Task& self,
                         int tasks_here) {
  if (train.threads) return static_cast<uint32_t>(*train.threads);
  if (tasks_here > 0) return std::max(1u, std::thread::hardware_concurrency() / static_cast<uint32_t>(tasks_here));
  uint32_t here = 0;
  // What is known of the host of one that is not listed is that it is there itself.
  if (!spec.listed(self)) return std::max(1u, std::thread::hardware_concurrency());
  for (const cluster::Task& worker : spec.workers())
    here += spec.listed(worker) && spec.address_of(worker).host == spec.address_of(self).host;
  return std::max(1u, std::thread::hardware_concurrency() / std::max(1u, here));
}

bool in_path(const std::string& program) {
  const auto runs = [](const std::string& file) {
    struct stat status {};
    return stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return runs(program);
  const char* path = std::getenv("PATH");
  const std::string all = path ? path : "/usr/bin:/bin";
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    if (runs(all.substr(begin, end - begin) + "/" + program)) return true;
    begin = end + 1;
  }
  return false;
}

void forget_flags_of_environment() {
  std::vector<std::string> names;
  for (char** at = environ; *at; ++at) {
    const std::string entry(*at);
    if (entry.starts_with("DTRAIN_")) names.push_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

std::string own_path() {
  char path[PATH_MAX] = {};
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "dtrain";
}

int64_t peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace dtrain::cmd
