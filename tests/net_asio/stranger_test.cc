// What a server does with peers that break the rules.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "proto-free-wire/codec.h"
#include "tests/net_asio/raw_peer.h"
#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::HasSubstr;

TEST(Stranger, GarbageIsClosedAndLoggedOnce) {
  Task server(server_config());
  const char http[] = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";
  for (int i = 0; i < 5; ++i) {
    RawPeer peer(server.transport->port());
    peer.send_bytes(std::as_bytes(std::span(http)));
    EXPECT_TRUE(peer.closed());
  }
  EXPECT_THAT(server.log.lines.await("closed a connection from 127.0.0.1:"), HasSubstr("not a frame of dtrain"));
  EXPECT_EQ(server.log.lines.count("closed a connection"), 1u);
  RawPeer good(server.transport->port());
  good.join();
}

TEST(Stranger, HostileLengthsBeforeTheHandshake) {
  Task server(server_config());
  for (const uint32_t length : {4097u, 1u << 20, 0xffffffffu}) {
    std::vector<std::byte> bytes = RawPeer::frame(RawPeer::hello());
    store_le<uint32_t>(bytes.data() + 8, length);
    RawPeer peer(server.transport->port());
    peer.send_bytes(bytes);
    EXPECT_TRUE(peer.closed());
  }
  server.log.lines.await("announces 4097 bytes of fields, at most 4096 are allowed");
}

TEST(Stranger, AnythingButHelloIsClosed) {
  Task server(server_config());
  for (const wire::Message& message : std::vector<wire::Message>{wire::Ready{}, wire::Welcome{}, wire::Refuse{}}) {
    RawPeer peer(server.transport->port());
    peer.send(message);
    EXPECT_TRUE(peer.closed());
  }
  EXPECT_TRUE(server.events.all().empty());
}

TEST(Stranger, TrickledHandshakeEndsAtTheDeadline) {
  AsioConfig config = server_config();
  config.timeouts.handshake = 50 * kMillisecond;
  Task server(std::move(config));
  RawPeer peer(server.transport->port());
  peer.send_bytes(ByteSpan(RawPeer::frame(RawPeer::hello())).first(20));
  EXPECT_TRUE(peer.closed());
  server.log.lines.await("no handshake within 0.05 s");
}

TEST(Stranger, TooManyPushTheOldestOut) {
  AsioConfig config = server_config();
  config.most_strangers = 2;
  Task server(std::move(config));
  RawPeer first(server.transport->port());
  RawPeer second(server.transport->port());
  RawPeer third(server.transport->port());
  EXPECT_TRUE(first.closed());
  third.join();
  RawPeer fourth(server.transport->port());  // there is room: the third is no stranger any more
  second.send(wire::Ready{});
  EXPECT_TRUE(second.closed());
}

TEST(Stranger, AnotherVersionIsToldSo) {
  Task server(server_config());
  std::vector<std::byte> bytes = RawPeer::frame(RawPeer::hello());
  store_le<uint16_t>(bytes.data() + 4, 7);
  RawPeer peer(server.transport->port());
  peer.send_bytes(bytes);
  const std::optional<wire::Message> answer = peer.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::print(*answer), fmt::format("Refuse{{exit_code=2, field=\"protocol\", ours=\"{}\", theirs=\"7\"}}",
                                              wire::kProtocolVersion));
  EXPECT_FALSE(peer.receive());
}

TEST(Stranger, ALongHelloGetsAnAnswerThatFits) {
  Task server(server_config());
  wire::Hello hello = RawPeer::hello();
  hello.program = std::string(3000, '\x1b');
  RawPeer peer(server.transport->port());
  peer.send(hello);
  const std::optional<wire::Message> answer = peer.receive();
  ASSERT_TRUE(answer && std::holds_alternative<wire::Refuse>(*answer));
  EXPECT_LE(wire::encode(*answer).size(), wire::kStrangerLimits.fields);
  EXPECT_EQ(server.log.lines.await("refused a task").find('\x1b'), std::string::npos);
}

TEST(Peer, KilledInTheMiddleOfAFrame) {
  Task server(server_config());
  const std::vector<float> tensor(1000, 1.0f);
  const std::vector<std::byte> bytes = RawPeer::frame(wire::NodeChunk{}, std::as_bytes(std::span(tensor)));
  for (const size_t cut : {size_t{1}, size_t{30}, wire::kHeaderBytes + 24, bytes.size() - 1}) {
    RawPeer peer(server.transport->port());
    peer.join();
    peer.send_bytes(ByteSpan(bytes).first(cut));
    peer.close();
    server.events.await("lost 1: it closed the connection in the middle of a frame");
    EXPECT_EQ(server.events.count("1: NodeChunk{"), 0u);
    server.events.clear();
  }
}

TEST(Peer, AFlippedBitEndsTheConnectionAndTheNextOneIsFine) {
  Task server(server_config());
  const std::vector<float> tensor(1000, 1.0f);
  const std::vector<std::byte> whole = RawPeer::frame(wire::NodeChunk{}, std::as_bytes(std::span(tensor)));
  for (const size_t at : {size_t{20}, size_t{25}, size_t{100}, whole.size() - 1}) {
    RawPeer peer(server.transport->port());
    peer.join();
    std::vector<std::byte> bytes = whole;
    bytes[at] ^= std::byte{4};
    peer.send_bytes(bytes);
    EXPECT_TRUE(peer.closed());
    EXPECT_THAT(server.events.await("lost 1: checksum of "), HasSubstr("does not match"));
    EXPECT_EQ(server.events.count("1: NodeChunk{"), 0u);
    server.events.clear();
  }
  RawPeer good(server.transport->port());
  good.join();
  good.send_bytes(whole);
  server.events.await("1: NodeChunk");
}

TEST(Peer, HostileLengthsAfterTheHandshake) {
  Task server(server_config());
  RawPeer peer(server.transport->port());
  peer.join();
  std::vector<std::byte> bytes = RawPeer::frame(wire::NodeChunk{});
  store_le<uint32_t>(bytes.data() + 12, 0xffffffff);
  peer.send_bytes(bytes);
  EXPECT_TRUE(peer.closed());
  server.events.await("lost 1: NodeChunk announces 4294967295 bytes of payload, at most 262144 are allowed");
}

TEST(Peer, ASecondHelloIsAFault) {
  Task server(server_config());
  RawPeer peer(server.transport->port());
  peer.join();
  peer.send(RawPeer::hello());
  EXPECT_TRUE(peer.closed());
  server.events.await("lost 1: it sent Hello after the handshake");
}

TEST(Peer, SilenceIsALoss) {
  AsioConfig config = server_config();
  config.timeouts.peer = 80 * kMillisecond;
  Task server(std::move(config));
  RawPeer peer(server.transport->port());
  peer.join();
  server.events.await("lost 1: nothing heard for 0.08 s");
  EXPECT_TRUE(peer.closed());
}

TEST(Peer, TheSameIncarnationMayConnectAnew) {
  Task server(server_config());
  RawPeer old(server.transport->port());
  old.join(200);
  RawPeer again(server.transport->port());
  again.join(200);
  server.events.await("lost 1: it made a new connection");
  EXPECT_TRUE(old.closed());
  EXPECT_EQ(server.events.count("connected 1 incarnation 200"), 2u);
}

TEST(Peer, AnotherIncarnationTakesTheSeatOfADeadOne) {
  AsioConfig config = server_config();
  config.timeouts.peer = 100 * kMillisecond;
  Task server(std::move(config));
  RawPeer silent(server.transport->port());  // as a host that was switched off
  silent.join(200);
  RawPeer again(server.transport->port());
  again.join(201);  // is answered when the first is given up
  server.events.await("lost 1: nothing heard");
  server.events.await("connected 1 incarnation 201");
}

TEST(Peer, WhoDoesNotReadIsLostBeforeMemoryIs) {
  AsioConfig config = server_config();
  config.most_control = 1u << 20;
  Task server(std::move(config));
  RawPeer peer(server.transport->port());
  peer.join();
  server.events.await("connected");
  server.on_loop([](Transport& t) {
    for (int i = 0; i < 100'000; ++i) t.send(1, wire::Offer{.step = i});
  });
  server.events.await("lost 1: it does not read what it is sent");
}

TEST(Peer, NoFileDescriptorsLeftOnlyDelays) {
  Task server(server_config(), false);
  RawPeer peer(server.transport->port());  // waits in the kernel
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  server.begin();
  server.log.lines.await("cannot accept connections for now");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  peer.join();
}

}  // namespace
}  // namespace dtrain::net
