// Guests at a task: who may come, how many, and what they may not do; and the guest's own end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "net/asio/guest_client.h"
#include "tests/net_asio/raw_peer.h"
#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::HasSubstr;

Endpoint here(uint16_t port) { return {"", "127.0.0.1", port}; }

TEST(Guest, AsksAndIsAnswered) {
  Task server(server_config());
  GuestClient client("0.1.0");
  const Result<size_t> link = client.connect(here(server.transport->port()), 20 * kSecond);
  ASSERT_TRUE(link) << link.error().message;
  server.events.await("connected 2147483648");
  client.send(*link, wire::AskStanding{7});
  EXPECT_FALSE(client.next(50 * kMillisecond));  // what is sent leaves while it waits for answers
  server.events.await("AskStanding");
  const std::vector<float> values{1, 2};
  server.send(wire::kFirstGuest, wire::TensorChunk{7, 0, 3, 0}, {std::as_bytes(std::span(values)), nullptr});
  const auto event = client.next(20 * kSecond);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<wire::TensorChunk>(event->message).version, 3);
  EXPECT_EQ(event->payload.size(), 8u);
  server.on_loop([](Transport& t) { t.disconnect(wire::kFirstGuest, "enough"); });
  const auto lost = client.next(20 * kSecond);
  ASSERT_TRUE(lost);
  EXPECT_THAT(lost->lost, HasSubstr("closed the connection"));
  server.events.await("lost 2147483648");
}

TEST(Guest, NumbersAreNeverUsedAgain) {
  Task server(server_config());
  for (const char* expected : {"connected 2147483648", "connected 2147483649"}) {
    RawPeer guest(server.transport->port());
    guest.send(wire::Guest{"0.1.0"});
    ASSERT_TRUE(guest.receive());
    server.events.await(expected);
  }
}

TEST(Guest, ThereAreFew) {
  AsioConfig config = server_config();
  config.most_guests = 1;
  Task server(std::move(config));
  GuestClient first("0.1.0"), second("0.1.0");
  ASSERT_TRUE(first.connect(here(server.transport->port()), 20 * kSecond));
  const Result<size_t> refused = second.connect(here(server.transport->port()), 20 * kSecond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kAuthentication);
  EXPECT_THAT(refused.error().message, HasSubstr("it has 1 guests, which is all there may be"));
}

TEST(Guest, OneThatFloodsIsLostAndTasksStay) {
  Task server(server_config());
  RawPeer task(server.transport->port());
  task.join();
  RawPeer guest(server.transport->port());
  guest.send(wire::Guest{"0.1.0"});
  ASSERT_TRUE(guest.receive());
  std::vector<std::byte> bytes;
  for (int i = 0; i < 12000; ++i) wire::append_head(wire::Heartbeat{}, {}, bytes);
  guest.send_bytes(bytes);
  EXPECT_TRUE(guest.closed());
  EXPECT_THAT(server.events.await("lost 2147483648"), HasSubstr("sends too much"));
  server.send(1, wire::Ready{});
  ASSERT_TRUE(task.receive());
}

// What it says of memory is a frame like any other, which the task takes for what it is: not a guest's.
TEST(Guest, HasNoMemoryToShare) {
  Task server(server_config());
  for (const RawPeer::Way way : {RawPeer::Way::kTcp, RawPeer::Way::kHost}) {
    RawPeer guest(server.transport->port(), way);
    guest.send(wire::Guest{"0.1.0"});
    ASSERT_TRUE(guest.receive());
    guest.send(wire::MemoryOffered{1, 4096});
    server.events.await("MemoryOffered");
    guest.send_reference(wire::TensorChunk{}, {1, 0, 4});
    EXPECT_TRUE(guest.closed());
  }
}

TEST(Guest, MayNotShakeHandsTwice) {
  Task server(server_config());
  for (const wire::Message& message : std::vector<wire::Message>{wire::Guest{}, RawPeer::hello(), wire::Welcome{}}) {
    RawPeer guest(server.transport->port());
    guest.send(wire::Guest{"0.1.0"});
    ASSERT_TRUE(guest.receive());
    guest.send(message);
    EXPECT_TRUE(guest.closed());
  }
}

TEST(Guest, ASilentOneIsLost) {
  AsioConfig config = server_config();
  config.timeouts.peer = 100 * kMillisecond;
  config.timeouts.heartbeat = 20 * kMillisecond;
  Task server(std::move(config));
  RawPeer guest(server.transport->port());
  guest.send(wire::Guest{"0.1.0"});
  EXPECT_TRUE(guest.closed());
  EXPECT_THAT(server.events.await("lost 2147483648"), HasSubstr("nothing heard"));
}

TEST(Guest, DoesNotHoldUpTheEnd) {
  Task server(server_config());
  RawPeer guest(server.transport->port());
  guest.send(wire::Guest{"0.1.0"});
  ASSERT_TRUE(guest.receive());
  server.events.await("connected");
  std::promise<void> drained;
  server.transport->post([&] { server.transport->drain_and_close(3600 * kSecond, [&] { drained.set_value(); }); });
  EXPECT_EQ(drained.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(GuestClient, SaysThatNobodyIsThere) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UniqueFd held(fd);  // bound, but nobody listens
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  GuestClient client("0.1.0");
  const Result<size_t> link = client.connect(here(ntohs(address.sin_port)), 20 * kSecond);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ExitCode::kPeerLost);
  EXPECT_THAT(link.error().message, HasSubstr("nobody is there"));
}

// Listens, takes one connection, and answers with some bytes.
class Other {
 public:
  explicit Other(std::vector<std::byte> answer) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener_.get(), 1);
    socklen_t size = sizeof(address);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
      UniqueFd fd(::accept(listener_.get(), nullptr, nullptr));
      std::byte sink[4096];
      if (::recv(fd.get(), sink, sizeof(sink), 0) <= 0) return;
      ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      while (::recv(fd.get(), sink, sizeof(sink), 0) > 0) {
      }
    });
  }
  ~Other() { thread_.join(); }
  uint16_t port = 0;

 private:
  UniqueFd listener_;
  std::thread thread_;
};

std::string connect_error(const std::vector<std::byte>& answer, Nanoseconds timeout, ExitCode code) {
  Other other(answer);
  GuestClient client("0.1.0");
  const Result<size_t> link = client.connect(here(other.port), timeout);
  EXPECT_FALSE(link);
  if (link) return "";
  EXPECT_EQ(link.error().code, code);
  return link.error().message;
}

TEST(GuestClient, SaysWhatIsNoTask) {
  const std::string http = "HTTP/1.1 400 Bad Request\r\n\r\nthis is some other server\r\n";
  const ByteSpan bytes = std::as_bytes(std::span(http));
  EXPECT_THAT(connect_error({bytes.begin(), bytes.end()}, 20 * kSecond, ExitCode::kPeerLost),
              HasSubstr("does not answer as a task of dtrain does:"));
  EXPECT_THAT(connect_error({}, 500 * kMillisecond, ExitCode::kPeerLost), HasSubstr("has said nothing within 0.5 s"));
}

TEST(GuestClient, SaysThatTheVersionIsAnother) {
  std::vector<std::byte> bytes = RawPeer::frame(wire::Welcome{});
  store_le<uint16_t>(bytes.data() + 4, 99);
  EXPECT_THAT(connect_error(bytes, 20 * kSecond, ExitCode::kUsage), HasSubstr("speaks version 99 of the protocol"));
}

}  // namespace
}  // namespace dtrain::net
