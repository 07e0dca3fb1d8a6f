// The address of a socket, of any family: IPv4, IPv6, or an abstract Unix-domain name.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  // "10.0.0.1", "::1"; without the port.
  std::string host() const;
  // "10.0.0.1:2500", "[::1]:2500", "@name".
  std::string text() const;
};

// `host` as a number, nothing where it is a name.
std::optional<SocketAddress> parse_address(const std::string& host, uint16_t port);
// All addresses of a host, names by the resolver of the system: may block for seconds.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);
// An address of one of this host's interfaces.
bool is_local(const SocketAddress& address);
// "127.0.0.1, 10.0.0.1, ::1"
std::string local_addresses();
// Where who listens at this address of TCP listens for tasks on the same host as well: an abstract name with the
// network namespace, address and port in it. It is seen in this network namespace only, and vanishes with its socket.
SocketAddress abstract_twin(const SocketAddress& tcp);
// The other end of a connected Unix-domain socket is a process of this user.
bool same_user(int fd);
// The other end of a connected socket is on this host.
bool from_this_host(int fd);
// The address that a socket is bound to.
SocketAddress own_address(int fd);
// The other end of a socket, for people.
std::string peer_text(int fd);

}  // namespace dtrain::net
