#include "launch/free_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dtrain::launch {

Reserved reserve_ports(const Preparation& what) {
  Reserved reserved;
  for (size_t i = 0; i < what.tasks.size(); ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      reserved.answer.problems = {{static_cast<uint32_t>(ExitCode::kUsage),
                                   fmt::format("cannot reserve a port on 127.0.0.1: {}", std::strerror(errno))}};
      if (fd >= 0) close(fd);
      for (const auto& fds : reserved.sockets) close(fds.front());
      reserved.sockets.clear();
      return reserved;
    }
    reserved.sockets.push_back({fd});
    reserved.answer.ports.push_back(ntohs(address.sin_port));
  }
  return reserved;
}

}  // namespace dtrain::launch
