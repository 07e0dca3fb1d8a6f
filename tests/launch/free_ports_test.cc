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
  Preparation what;
  what.tasks.resize(5);
  const Reserved reserved = reserve_ports(what);
  ASSERT_TRUE(reserved.answer.problems.empty());
  ASSERT_EQ(reserved.answer.ports.size(), 5u);
  std::set<uint32_t> numbers;
  for (size_t i = 0; i < 5; ++i) {
    const uint32_t port = reserved.answer.ports[i];
    numbers.insert(port);
    EXPECT_NE(port, 0u);
    EXPECT_FALSE(can_bind(static_cast<uint16_t>(port)));
    int listens = 1;
    socklen_t size = sizeof(listens);
    getsockopt(reserved.sockets[i].front(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    EXPECT_EQ(listens, 0);
  }
  EXPECT_EQ(numbers.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    close(reserved.sockets[i].front());
    EXPECT_TRUE(can_bind(static_cast<uint16_t>(reserved.answer.ports[i])));
  }
}

// A port that any other task holds open would go on to take connections for a task that is dead.
TEST(FreePorts, AreInheritedByNobodyUnasked) {
  Preparation what;
  what.tasks.resize(1);
  const Reserved reserved = reserve_ports(what);
  ASSERT_EQ(reserved.sockets.size(), 1u);
  EXPECT_TRUE(fcntl(reserved.sockets[0].front(), F_GETFD) & FD_CLOEXEC);
  close(reserved.sockets[0].front());
}

}  // namespace
}  // namespace dtrain::launch
