#include "observe/service_notifier.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace dtrain::observe {

Result<ServiceNotifier> ServiceNotifier::open(const std::string& address, std::optional<Nanoseconds> watchdog) {
  // A path in the file system ends with a zero, and has to begin at the root.
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (address.size() < 2 || (address.front() != '/' && address.front() != '@'))
    return fail(ExitCode::kUsage, fmt::format("'{}' is neither the path of a socket nor '@name'", address));
  if (address.size() > kLongest)
    return fail(ExitCode::kUsage,
                fmt::format("'{}' is longer than the {} bytes of a socket's address", address, kLongest));
  ServiceNotifier notifier;
  notifier.address_ = address;
  if (address.front() == '@') notifier.address_.front() = '\0';
  notifier.watchdog_ = watchdog;
  notifier.fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (notifier.fd_ < 0) return fail(ExitCode::kUsage, fmt::format("no socket: {}", std::strerror(errno)));
  return notifier;
}

ServiceNotifier::ServiceNotifier(ServiceNotifier&& other) noexcept { *this = std::move(other); }

ServiceNotifier& ServiceNotifier::operator=(ServiceNotifier&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(address_, other.address_);
  std::swap(watchdog_, other.watchdog_);
  std::swap(ready_, other.ready_);
  std::swap(stopping_, other.stopping_);
  std::swap(status_at_, other.status_at_);
  std::swap(beat_at_, other.beat_at_);
  std::swap(status_, other.status_);
  return *this;
}

ServiceNotifier::~ServiceNotifier() {
  stopping();
  if (fd_ >= 0) close(fd_);
}

void ServiceNotifier::ready() {
  if (ready_ != Ready::kNo) return;
  ready_ = Ready::kOwed;
  send("");
}

bool ServiceNotifier::wants_status(Instant now) const {
  return fd_ >= 0 && (!status_at_ || now - *status_at_ >= kSecond);
}

void ServiceNotifier::status(const std::string& text, Instant now) {
  if (!wants_status(now)) return;
  status_at_ = now;
  if (text == status_) return;
  std::string line = text;  // an assignment is a line
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (send("STATUS=" + line)) status_ = text;
}

void ServiceNotifier::beat(Instant now) {
  if (fd_ < 0) return;
  if (ready_ == Ready::kOwed) send("");
  if (!watchdog_ || (beat_at_ && now - *beat_at_ < *watchdog_ / 2)) return;
  if (send("WATCHDOG=1")) beat_at_ = now;
}

void ServiceNotifier::stopping() {
  if (!std::exchange(stopping_, true)) send("STOPPING=1");
}

// What is owed goes first, in the same datagram.
bool ServiceNotifier::send(std::string assignments) {
  if (fd_ < 0) return false;
  const bool owed = ready_ == Ready::kOwed;
  if (owed) assignments.insert(0, assignments.empty() ? "READY=1" : "READY=1\n");
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::copy(address_.begin(), address_.end(), to.sun_path);
  const size_t length = offsetof(sockaddr_un, sun_path) + address_.size() + (address_.front() == '\0' ? 0 : 1);
  const bool sent = sendto(fd_, assignments.data(), assignments.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&to), static_cast<socklen_t>(length)) >= 0;
  if (sent && owed) ready_ = Ready::kSaid;
  return sent;
}

}  // namespace dtrain::observe
