#include "net/asio/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace dtrain::net {
namespace {

const sockaddr_in& v4(const SocketAddress& a) { return reinterpret_cast<const sockaddr_in&>(a.storage); }
const sockaddr_in6& v6(const SocketAddress& a) { return reinterpret_cast<const sockaddr_in6&>(a.storage); }

SocketAddress copy_of(const sockaddr* address, socklen_t size) {
  SocketAddress copy;
  copy.size = std::min<socklen_t>(size, sizeof(copy.storage));
  std::memcpy(&copy.storage, address, copy.size);
  return copy;
}

std::vector<SocketAddress> interfaces() {
  std::vector<SocketAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (i->ifa_addr->sa_family == AF_INET) found.push_back(copy_of(i->ifa_addr, sizeof(sockaddr_in)));
    if (i->ifa_addr->sa_family == AF_INET6) found.push_back(copy_of(i->ifa_addr, sizeof(sockaddr_in6)));
  }
  ::freeifaddrs(list);
  return found;
}

bool same_host(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET) return v4(a).sin_addr.s_addr == v4(b).sin_addr.s_addr;
  return std::memcmp(&v6(a).sin6_addr, &v6(b).sin6_addr, sizeof(in6_addr)) == 0;
}

Result<std::vector<SocketAddress>> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (rc != 0) {
    const char* why = rc == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(rc);
    return fail(ExitCode::kUsage, fmt::format("cannot resolve the host name '{}': {}", host, why));
  }
  std::vector<SocketAddress> found;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    if (i->ai_family == AF_INET || i->ai_family == AF_INET6) found.push_back(copy_of(i->ai_addr, i->ai_addrlen));
  }
  ::freeaddrinfo(list);
  if (found.empty()) return fail(ExitCode::kUsage, fmt::format("the host name '{}' has no address", host));
  return found;
}

}  // namespace

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(v4(*this).sin_port);
  return family() == AF_INET6 ? ntohs(v6(*this).sin6_port) : 0;
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) ::inet_ntop(AF_INET, &v4(*this).sin_addr, text, sizeof(text));
  if (family() == AF_INET6) ::inet_ntop(AF_INET6, &v6(*this).sin6_addr, text, sizeof(text));
  return text;
}

std::string SocketAddress::text() const {
  if (family() == AF_INET) return fmt::format("{}:{}", host(), port());
  if (family() == AF_INET6) return fmt::format("[{}]:{}", host(), port());
  const auto& local = reinterpret_cast<const sockaddr_un&>(storage);
  const size_t prefix = offsetof(sockaddr_un, sun_path) + 1;
  return size > prefix ? "@" + std::string(local.sun_path + 1, size - prefix) : "a process of this host";
}

std::optional<SocketAddress> parse_address(const std::string& host, uint16_t port) {
  const Result<std::vector<SocketAddress>> found = look_up(host, port, AI_NUMERICHOST);
  if (!found) return std::nullopt;
  return found->front();
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) { return look_up(host, port, 0); }

bool is_local(const SocketAddress& address) {
  if (address.is_loopback()) return true;
  const std::vector<SocketAddress> own = interfaces();
  return std::any_of(own.begin(), own.end(), [&](const SocketAddress& a) { return same_host(a, address); });
}

std::string local_addresses() {
  std::string list;
  for (const SocketAddress& a : interfaces()) list += (list.empty() ? "" : ", ") + a.host();
  return list;
}

SocketAddress abstract_twin(const SocketAddress& tcp) {
  struct stat space {};
  ::stat("/proc/self/ns/net", &space);
  const std::string name = fmt::format("dtrain-{}-{}", space.st_ino, tcp.text());
  SocketAddress twin;
  auto& local = reinterpret_cast<sockaddr_un&>(twin.storage);
  local.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(local.sun_path) - 1);
  std::memcpy(local.sun_path + 1, name.data(), length);  // behind a zero: abstract
  twin.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return twin;
}

bool same_user(int fd) {
  ucred other{};
  socklen_t size = sizeof(other);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
}

bool from_this_host(int fd) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (::getpeername(fd, address.get(), &address.size) != 0) return false;
  return address.family() == AF_UNIX || is_local(address);
}

SocketAddress own_address(int fd) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  ::getsockname(fd, address.get(), &address.size);
  return address;
}

std::string peer_text(int fd) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (::getpeername(fd, address.get(), &address.size) != 0) return "an unknown address";
  return address.text();
}

}  // namespace dtrain::net
