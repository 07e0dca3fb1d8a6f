#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <thread>

#include "base/exit_code.h"

namespace dtrain::cmd {

std::atomic<int> interrupts{0};

namespace {
void on_signal(int) {
  if (interrupts.fetch_add(1) >= 2) _exit(static_cast<int>(ExitCode::kInterrupted));
}
}  // namespace

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Status claim_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // stays open: the lock is the process's
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  close(fd);
  return fail(ExitCode::kUsage, fmt::format("another process is writing into {}: wait for its end, or end it", path));
}

uint64_t random_incarnation() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
}

uint32_t offered_threads(const config::TrainSpec& train, const cluster::ClusterSpec& spec, const cluster::Task& self) {
  if (train.threads) return static_cast<uint32_t>(*train.threads);
  uint32_t here = 0;
  for (const cluster::Task& worker : spec.workers()) here += spec.address_of(worker).host == spec.address_of(self).host;
  return std::max(1u, std::thread::hardware_concurrency() / std::max(1u, here));
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
