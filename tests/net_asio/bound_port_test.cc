#include "net/asio/bound_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <set>

#include "net/asio/dialer.h"
#include "net/asio/listener.h"
#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::HasSubstr;

TEST(BoundPort, SaysWhoHasThePort) {
  Task server(server_config());
  AsioConfig config = server_config();
  config.endpoints[0].port = server.transport->port();
  NullLog log;
  const auto second = AsioTransport::create(std::move(config), log);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ExitCode::kUsage);
  EXPECT_THAT(second.error().message, HasSubstr(fmt::format("port {} of 127.0.0.1 is in use by process {} (",
                                                            server.transport->port(), ::getpid())));
}

TEST(BoundPort, AnAddressOfAnotherHostIsRefused) {
  NullLog log;
  const auto bound = bind_port("192.0.2.1", 0, log);  // TEST-NET-1, RFC 5737
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, ExitCode::kUsage);
  EXPECT_THAT(bound.error().message, HasSubstr("cannot listen at 192.0.2.1"));
  EXPECT_THAT(bound.error().message, HasSubstr("the addresses of this host: "));
}

TEST(BoundPort, AnUnknownNameIsRefused) {
  NullLog log;
  const auto bound = bind_port("no-such-host.invalid", 0, log);
  ASSERT_FALSE(bound);
  EXPECT_THAT(bound.error().message, HasSubstr("cannot resolve the host name 'no-such-host.invalid'"));
}

TEST(BoundPort, ReservedPortsAreAllDifferent) {
  NullLog log;
  std::vector<BoundPort> ports;
  std::set<uint16_t> numbers;
  for (int i = 0; i < 50; ++i) {
    auto bound = bind_port("127.0.0.1", 0, log);
    ASSERT_TRUE(bound) << bound.error().message;
    numbers.insert(bound->port);
    ports.push_back(std::move(*bound));
  }
  EXPECT_EQ(numbers.size(), 50u);
}

TEST(BoundPort, AParentsSocketIsTakenOver) {
  NullLog log;
  auto bound = bind_port("127.0.0.1", 0, log);
  ASSERT_TRUE(bound);
  const uint16_t port = bound->port;
  AsioConfig config = server_config();
  config.endpoints[0].port = port;
  config.listen_fds = {bound->sockets[0].release()};
  Task server(std::move(config));
  EXPECT_EQ(server.transport->port(), port);
  Task worker(worker_config(port));
  worker.events.await("connected 0");
}

TEST(BoundPort, WhatIsNoBoundSocketIsNotTakenOver) {
  EXPECT_FALSE(adopt_port({999}));
  const UniqueFd unbound(::socket(AF_INET, SOCK_STREAM, 0));
  const auto adopted = adopt_port({unbound.get()});
  ASSERT_FALSE(adopted);
  EXPECT_THAT(adopted.error().message, HasSubstr("no socket bound to a port"));
}

// The family of the connection that a Dialer makes to `port`.
int family_dialled(asio::io_context& loop, const std::string& host, uint16_t port, bool host_sockets = true) {
  int family = -1;
  Dialer dialer(loop, {"x", host, port}, 5 * kSecond, host_sockets, [&](Result<UniqueFd> socket) {
    ASSERT_TRUE(socket) << socket.error().message;
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &size);
    family = address.ss_family;
  });
  loop.restart();
  loop.run();
  return family;
}

TEST(Dialer, TakesTheUnixSocketOnOneHostAndTcpWhereThereIsNone) {
  NullLog log;
  asio::io_context loop;
  auto port = bind_port("127.0.0.1", 0, log);
  ASSERT_TRUE(port);
  const uint16_t number = port->port;
  auto listener = Listener::listen(loop, std::move(*port), log);
  ASSERT_TRUE(listener);
  EXPECT_EQ(family_dialled(loop, "127.0.0.1", number), AF_UNIX);
  EXPECT_EQ(family_dialled(loop, "127.0.0.1", number, false), AF_INET);

  auto plain = bind_port("127.0.0.1", 0, log);
  ASSERT_TRUE(plain);
  ASSERT_EQ(::listen(plain->sockets[0].get(), 5), 0);
  EXPECT_EQ(family_dialled(loop, "127.0.0.1", plain->port), AF_INET);
}

TEST(Dialer, ADestroyedDialerNeverCalls) {
  asio::io_context loop;
  bool called = false;
  {
    const Dialer dialer(loop, {"x", "127.0.0.1", 1}, kSecond, true, [&](Result<UniqueFd>) { called = true; });
  }
  loop.run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace dtrain::net
