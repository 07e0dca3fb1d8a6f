#include "net/asio/bound_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "net/asio/port_owner.h"
#include "net/asio/socket_address.h"

namespace dtrain::net {
namespace {

Result<SocketAddress> bound_address(int fd) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (::getsockname(fd, address.get(), &address.size) != 0) {
    return fail(ExitCode::kUsage, fmt::format("file descriptor {} is no socket: {}", fd, std::strerror(errno)));
  }
  return address;
}

// The error number in the second place where the socket cannot be bound.
std::pair<UniqueFd, int> bind_one(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return {UniqueFd(), errno};
  const int yes = 1;
  // A port that was used a minute ago can be used again. A free port that the kernel picks must stay ours alone.
  if (address.port() != 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  if (::bind(fd.get(), address.get(), address.size) != 0) return {UniqueFd(), errno};
  return {std::move(fd), 0};
}

// Binds the addresses to one port. In `busy`: whether the port was taken at one of them.
Result<BoundPort> bind_all(std::vector<SocketAddress> addresses, const std::string& host, uint16_t port, bool* busy) {
  BoundPort bound{host, port, {}};
  std::string tried;
  for (SocketAddress& address : addresses) {
    address.set_port(bound.port);
    auto [fd, error] = bind_one(address);
    if (error == EADDRINUSE) {
      *busy = true;
      return tl::unexpected<Error>(port_in_use(address.host(), bound.port));
    }
    if (!fd.valid()) {
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", address.text(), std::strerror(error));
      continue;
    }
    DTRAIN_TRY_ASSIGN(const SocketAddress actual, bound_address(fd.get()));
    bound.port = actual.port();
    bound.sockets.push_back(std::move(fd));
  }
  if (bound.sockets.empty()) {
    return fail(ExitCode::kUsage, fmt::format("cannot listen at {}: {} (the addresses of this host: {})", host, tried,
                                              local_addresses()));
  }
  return bound;
}

}  // namespace

Error port_in_use(const std::string& host, uint16_t port) {
  const std::string owner = port_owner(port);
  return {ExitCode::kUsage, fmt::format("port {} of {} is in use{}{}", port, host, owner.empty() ? "" : " by ", owner)};
}

Result<BoundPort> bind_port(const std::string& host, uint16_t port, Log& log) {
  DTRAIN_TRY_ASSIGN(const std::vector<SocketAddress> addresses, resolve(host, port));
  const bool is_name = !parse_address(host, 0).has_value() && host != "localhost";
  if (is_name && addresses.front().is_loopback()) {
    log.warning("the name '{}' means {} on this host, which other hosts cannot reach", host, addresses.front().host());
  }
  // A free port of one address may be taken at another: then another one is tried.
  constexpr int kAttempts = 16;
  for (int attempt = 1;; ++attempt) {
    bool busy = false;
    Result<BoundPort> bound = bind_all(addresses, host, port, &busy);
    if (bound || port != 0 || !busy || attempt == kAttempts) return bound;
  }
}

Result<BoundPort> adopt_port(const std::vector<int>& fds) {
  BoundPort bound;
  for (const int fd : fds) {
    DTRAIN_TRY_ASSIGN(const SocketAddress address, bound_address(fd));
    int type = 0;
    socklen_t size = sizeof(type);
    ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    if ((address.family() != AF_INET && address.family() != AF_INET6) || type != SOCK_STREAM || address.port() == 0) {
      return fail(ExitCode::kUsage, fmt::format("file descriptor {} is no socket bound to a port of TCP", fd));
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    bound.host = address.host();
    bound.port = address.port();
    bound.sockets.emplace_back(fd);
  }
  return bound;
}

}  // namespace dtrain::net
