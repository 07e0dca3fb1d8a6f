#include "secret_flags.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "net/asio/unique_fd.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

// How long whoever hands the secret over may take.
constexpr Nanoseconds kPatience = 10 * kSecond;

Result<std::shared_ptr<const RunSecret>> read_all(int fd, const std::string& origin) {
  // Of one size from the beginning: no part is left behind in memory that was given back. A line break may follow.
  std::vector<std::byte> bytes(RunSecret::kLongest + 3);
  size_t size = 0;
  SteadyClock clock;
  const Instant until = clock.now() + kPatience;
  std::string failure;
  while (size < bytes.size()) {
    pollfd ready{fd, POLLIN, 0};
    const auto left = static_cast<int>((until - clock.now()) / kMillisecond);
    const int polled = left > 0 ? ::poll(&ready, 1, left) : 0;
    if (polled == 0) failure = fmt::format("nothing has come within {:g} s", static_cast<double>(kPatience) / kSecond);
    const ssize_t n = polled > 0 ? ::read(fd, bytes.data() + size, bytes.size() - size) : polled;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) failure = std::strerror(errno);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  if (!failure.empty()) {
    wipe(bytes);
    return fail(ExitCode::kUsage, fmt::format("cannot read the secret from {}: {}", origin, failure));
  }
  bytes.resize(size);  // what is cut off was never written to
  return RunSecret::make(std::move(bytes), origin);
}

// Why a file of these permissions holds no secret: its group or others may use it, and it is not one that root keeps on a
// file system that nobody writes to, as Kubernetes does. Empty where it may.
std::string exposure(const struct stat& file, const struct statvfs& system) {
  const bool mounted = file.st_uid == 0 && (system.f_flag & ST_RDONLY) != 0;
  if ((file.st_mode & 077) == 0 || mounted) return "";
  return fmt::format("has the permissions {:04o}, so that others than its owner may use it", file.st_mode & 07777);
}

Result<std::shared_ptr<const RunSecret>> read_file(const std::string& path) {
  const std::string origin = fmt::format("--secret_file {}", path);
  // Who opens a pipe waits for who writes to it, but not so.
  const net::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat file {};
  struct statvfs system {};
  if (!fd.valid() || ::fstat(fd.get(), &file) != 0 || ::fstatvfs(fd.get(), &system) != 0)
    return fail(ExitCode::kUsage, fmt::format("{}: {}", origin, std::strerror(errno)));
  if (!S_ISREG(file.st_mode)) return fail(ExitCode::kUsage, fmt::format("{} is no regular file", origin));
  if (const std::string why = exposure(file, system); !why.empty())
    return fail(ExitCode::kUsage, fmt::format("{} {}: chmod 600 {}", origin, why, path));
  return read_all(fd.get(), origin);
}

}  // namespace

Result<net::ProofMeans> SecretFlags::read() const {
  net::ProofMeans means{nullptr, random_nonce};
  if (fd >= 0) {
    DTRAIN_TRY_ASSIGN(means.secret, read_all(fd, fmt::format("--secret_fd {}", fd)));
    if (fd > STDERR_FILENO) ::close(fd);
  } else if (!file.empty()) {
    DTRAIN_TRY_ASSIGN(means.secret, read_file(file));
  }
  return means;
}

}  // namespace dtrain::cmd
