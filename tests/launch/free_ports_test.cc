#include "launch/free_ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

namespace dtrain::launch {
namespace {

bool can_bind(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return bound;
}

// They do not listen: whoever dials waits for the task itself.
TEST(FreePorts, AreDifferentAndTaken) {
  const auto ports = reserve_ports(5);
  ASSERT_TRUE(ports) << ports.error().message;
  ASSERT_EQ(ports->size(), 5u);
  std::set<uint16_t> numbers;
  for (const ReservedPort& p : *ports) {
    numbers.insert(p.port);
    EXPECT_NE(p.port, 0);
    EXPECT_FALSE(can_bind(p.port));
    int listens = 1;
    socklen_t size = sizeof(listens);
    getsockopt(p.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    EXPECT_EQ(listens, 0);
  }
  EXPECT_EQ(numbers.size(), 5u);
  for (const ReservedPort& p : *ports) {
    close(p.fd);
    EXPECT_TRUE(can_bind(p.port));
  }
}

// A port that any other task holds open would go on to take connections for a task that is dead.
TEST(FreePorts, AreInheritedByNobodyUnasked) {
  const auto ports = reserve_ports(1);
  ASSERT_TRUE(ports) << ports.error().message;
  EXPECT_TRUE(fcntl(ports->front().fd, F_GETFD) & FD_CLOEXEC);
  close(ports->front().fd);
}

}  // namespace
}  // namespace dtrain::launch
