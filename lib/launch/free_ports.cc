#include "launch/free_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dtrain::launch {

Result<std::vector<ReservedPort>> reserve_ports(size_t count) {
  std::vector<ReservedPort> ports;
  for (size_t i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      const std::string why = std::strerror(errno);
      if (fd >= 0) close(fd);
      for (const ReservedPort& p : ports) close(p.fd);
      return fail(ExitCode::kUsage, fmt::format("cannot reserve a port on 127.0.0.1: {}", why));
    }
    ports.push_back({fd, ntohs(address.sin_port)});
  }
  return ports;
}

}  // namespace dtrain::launch
