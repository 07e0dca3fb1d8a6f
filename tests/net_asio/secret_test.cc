// Tasks and guests that must prove that they hold the run's secret; and those that try without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "net/asio/guest_client.h"
#include "net/handshake.h"
#include "proto-free-wire/codec.h"
#include "tests/net_asio/raw_peer.h"
#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::HasSubstr;
using Way = RawPeer::Way;

// Nonces that are not random, but never the same twice, in any thread.
ProofMeans means(char secret) {
  static std::atomic<uint32_t> count{0};
  return {*RunSecret::make(std::vector<std::byte>(32, static_cast<std::byte>(secret)), "a test"), [] {
            Digest nonce{};
            store_le<uint32_t>(nonce.data() + 5, ++count);
            return nonce;
          }};
}

AsioConfig with_secret(AsioConfig config, char secret = 's') {
  config.proof = means(secret);
  return config;
}

wire::Hello hello_with_nonce() {
  wire::Hello hello = RawPeer::hello();
  hello.nonce = means('s').nonce();
  return hello;
}

DiallerProof proof_of(char secret, const wire::Message& greeting) { return {means(secret).secret, greeting, 0}; }

wire::Challenge challenge_to(RawPeer& peer, const wire::Message& greeting) {
  peer.send(greeting);
  const std::optional<wire::Message> answer = peer.receive();
  if (!answer || !std::holds_alternative<wire::Challenge>(*answer)) {
    ADD_FAILURE() << (answer ? wire::print(*answer) : "no answer");
    return {};
  }
  return std::get<wire::Challenge>(*answer);
}

// What a stranger is told: nothing.
void expect_closed_without_a_reason(RawPeer& peer) {
  const std::optional<wire::Message> answer = peer.receive();
  if (!answer) return;
  EXPECT_EQ(wire::print(*answer), "Refuse{exit_code=6, field=\"\", ours=\"\", theirs=\"\"}");
  EXPECT_FALSE(peer.receive());
}

TEST(Secret, WhoHoldsItMeets) {
  for (const bool host_sockets : {true, false}) {
    Task server(with_secret(server_config()));
    AsioConfig config = with_secret(worker_config(server.transport->port()));
    config.host_sockets = host_sockets;
    Task worker(std::move(config));
    server.events.await("connected 1 incarnation 200");
    worker.events.await("connected 0 incarnation 100");
    worker.send(0, wire::Ready{});
    server.events.await("1: Ready{}");
    EXPECT_TRUE(server.log.lines.all().empty());
  }
}

TEST(Secret, ARawPeerThatHoldsItIsAdmitted) {
  Task server(with_secret(server_config()));
  for (const Way way : {Way::kTcp, Way::kHost}) {
    RawPeer peer(server.transport->port(), way);
    const wire::Hello hello = hello_with_nonce();
    const std::optional<wire::Proof> proof = proof_of('s', hello).answer(challenge_to(peer, hello));
    ASSERT_TRUE(proof);
    peer.send(*proof);
    const std::optional<wire::Message> answer = peer.receive();
    ASSERT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
  }
}

// What differs is said to those who have proven themselves, and to nobody else.
TEST(Secret, DifferencesAreForThoseWhoHoldIt) {
  Task server(with_secret(server_config()));
  wire::Hello hello = hello_with_nonce();
  hello.run_digest.fill(9);
  hello.rank = 70000;
  RawPeer stranger(server.transport->port());
  const wire::Challenge challenge = challenge_to(stranger, hello);
  EXPECT_EQ(challenge.rank, 0u);
  stranger.send(wire::Proof{challenge.proof});
  expect_closed_without_a_reason(stranger);

  RawPeer task(server.transport->port());
  const std::optional<wire::Proof> proof = proof_of('s', hello).answer(challenge_to(task, hello));
  ASSERT_TRUE(proof);
  task.send(*proof);
  const std::optional<wire::Message> answer = task.receive();
  ASSERT_TRUE(answer && std::holds_alternative<wire::Refuse>(*answer));
  EXPECT_EQ(std::get<wire::Refuse>(*answer).field, "run_digest");
}

TEST(Secret, WrongProofs) {
  Task server(with_secret(server_config()));
  const wire::Hello hello = hello_with_nonce();
  wire::Proof recorded;
  {
    RawPeer peer(server.transport->port());
    recorded = *proof_of('s', hello).answer(challenge_to(peer, hello));
    peer.send(recorded);
    ASSERT_TRUE(peer.receive());
  }
  server.events.await("lost 1");
  server.events.clear();
  const auto wrong = [&](const char* what, auto make) {
    RawPeer peer(server.transport->port());
    const wire::Challenge challenge = challenge_to(peer, hello);
    peer.send(make(challenge));
    SCOPED_TRACE(what);
    expect_closed_without_a_reason(peer);
  };
  wrong("replayed", [&](const wire::Challenge&) { return recorded; });
  wrong("reflected", [](const wire::Challenge& c) { return wire::Proof{c.proof}; });
  wrong("empty", [](const wire::Challenge&) { return wire::Proof{}; });
  wrong("of another rank", [&](const wire::Challenge& c) {
    // A task of rank 2 is shown a challenge to rank 1: it does not answer; would it, this would be its answer.
    wire::Hello other = hello;
    other.rank = 2;
    EXPECT_FALSE(proof_of('s', other).answer(c));
    AcceptorProof forged(means('s'), other, 0);
    return *proof_of('s', other).answer(forged.challenge());
  });
  EXPECT_EQ(server.events.count("connected"), 0u);
  EXPECT_THAT(server.log.lines.await("refused a connection from 127.0.0.1:"), HasSubstr("give the same --secret_file"));
  EXPECT_EQ(server.log.lines.count("127.0.0.1"), 1u) << "once for an address";
}

TEST(Secret, OutOfOrder) {
  Task server(with_secret(server_config()));
  const wire::Hello hello = hello_with_nonce();
  const std::vector<std::vector<wire::Message>> orders = {
      {wire::Proof{}},
      {wire::Challenge{}},
      {hello, hello},
      {hello, wire::Guest{}},
      {hello, wire::Ready{}},
      {hello, wire::Welcome{}},
      {hello, wire::Challenge{}},
      {hello, wire::Heartbeat{}},
  };
  for (const std::vector<wire::Message>& order : orders) {
    RawPeer peer(server.transport->port());
    for (const wire::Message& message : order) peer.send(message);
    EXPECT_TRUE(peer.closed()) << wire::print(order.back());
  }
  EXPECT_EQ(server.events.count("connected"), 0u);
  // And after it.
  for (const wire::Message& again : std::vector<wire::Message>{wire::Proof{}, wire::Challenge{}, hello}) {
    RawPeer peer(server.transport->port());
    peer.send(*proof_of('s', hello).answer(challenge_to(peer, hello)));
    ASSERT_TRUE(peer.receive());
    peer.send(again);
    EXPECT_TRUE(peer.closed());
    server.events.await("after the handshake");
    server.events.clear();
  }
}

TEST(Secret, CutAndChangedProofs) {
  Task server(with_secret(server_config()));
  const wire::Hello hello = hello_with_nonce();
  const size_t whole = RawPeer::frame(wire::Proof{}).size();
  for (size_t at = 0; at < whole; ++at) {
    RawPeer cut(server.transport->port()), flipped(server.transport->port());
    std::vector<std::byte> bytes = RawPeer::frame(*proof_of('s', hello).answer(challenge_to(cut, hello)));
    cut.send_bytes(ByteSpan(bytes).first(at));
    cut.close();
    bytes = RawPeer::frame(*proof_of('s', hello).answer(challenge_to(flipped, hello)));
    bytes[at] ^= std::byte{1};
    flipped.send_bytes(bytes);
    flipped.send(wire::Ready{});  // where a length was made longer
    flipped.shut();
    EXPECT_TRUE(flipped.closed());
  }
  // Of a length that no proof has, with a checksum that holds.
  RawPeer peer(server.transport->port());
  challenge_to(peer, hello);
  std::vector<std::byte> bytes = RawPeer::frame(wire::Welcome{});
  store_le<uint16_t>(bytes.data() + 6, static_cast<uint16_t>(wire::MessageType::kProof));
  store_le<uint32_t>(bytes.data() + 16,
                     crc32c(ByteSpan(bytes).subspan(wire::kHeaderBytes), crc32c(ByteSpan(bytes).first(16))));
  peer.send_bytes(bytes);
  EXPECT_TRUE(peer.closed());
  EXPECT_EQ(server.events.count("connected"), 0u);
}

TEST(Secret, StrangersKeepToTheirLimitsUntilTheEnd) {
  AsioConfig config = with_secret(server_config());
  config.timeouts.handshake = 100 * kMillisecond;
  config.most_strangers = 2;
  Task server(std::move(config));
  const wire::Hello hello = hello_with_nonce();
  RawPeer slow(server.transport->port());
  challenge_to(slow, hello);
  EXPECT_TRUE(slow.closed());
  server.log.lines.await("no handshake within 0.1 s");
  RawPeer large(server.transport->port());
  challenge_to(large, hello);
  std::vector<std::byte> bytes = RawPeer::frame(wire::Proof{});
  store_le<uint32_t>(bytes.data() + 8, 4097);
  large.send_bytes(bytes);
  EXPECT_TRUE(large.closed());
  RawPeer first(server.transport->port()), second(server.transport->port()), third(server.transport->port());
  for (RawPeer* peer : {&first, &second, &third}) peer->send(hello);
  EXPECT_TRUE(first.closed());
}

TEST(Secret, AnotherOne) {
  Task server(with_secret(server_config()));
  Task worker(with_secret(worker_config(server.transport->port()), 'x'));
  const std::string refused = worker.events.await("refused by 0");
  EXPECT_EQ(refused, "refused by 0: Refuse{exit_code=6, field=\"secret\", ours=\"another\", theirs=\"one\"}");
  EXPECT_THAT(server.log.lines.await("has not proven"), HasSubstr("give the same --secret_file"));
  EXPECT_TRUE(server.events.all().empty());
}

TEST(Secret, OnlyTheOneThatAcceptsHasOne) {
  Task server(with_secret(server_config()));
  Task worker(worker_config(server.transport->port()));
  EXPECT_EQ(worker.events.await("refused by 0"),
            "refused by 0: Refuse{exit_code=6, field=\"\", ours=\"\", theirs=\"\"}");
  EXPECT_THAT(server.log.lines.await("refused a task"),
              HasSubstr("it has no secret, this task has one; give the same"));
  Task again(worker_config(server.transport->port()));
  again.events.await("refused by 0");
  EXPECT_EQ(server.log.lines.count("refused"), 1u) << "once for an address";
}

TEST(Secret, OnlyTheOneThatDialsHasOne) {
  Task server(server_config());
  Task worker(with_secret(worker_config(server.transport->port())));
  EXPECT_THAT(worker.events.await("refused by 0"), HasSubstr("exit_code=6, field=\"secret\", ours=\"none\""));
  EXPECT_THAT(server.log.lines.await("refused a task"),
              HasSubstr("it has a secret, this task has none; give the same"));
  EXPECT_TRUE(server.events.all().empty());
}

TEST(Secret, WhatToDoIsSaid) {
  const Endpoint by{"/job:ps/task:0", "10.0.0.1", 2500};
  EXPECT_EQ(explain({6, "secret", "none", "one"}, by),
            "this task has a secret, /job:ps/task:0 (10.0.0.1:2500) has none: give the same --secret_file to both");
  EXPECT_THAT(explain({6, "secret", "another", "one"}, by), HasSubstr("holds another secret than this task"));
  EXPECT_THAT(explain({6, "", "", ""}, by), HasSubstr("it probably has a secret, and this task has none"));
}

// Listens as a task would, and says to whoever connects what it is told to say. `answer` gets the Hello.
class Impostor {
 public:
  explicit Impostor(std::function<std::vector<wire::Message>(const wire::Hello&)> answer)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener_.get(), 1);
    socklen_t size = sizeof(address);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
      RawPeer peer(UniqueFd(::accept(listener_.get(), nullptr, nullptr)));
      const std::optional<wire::Message> first = peer.receive();
      if (!first || !std::holds_alternative<wire::Hello>(*first)) return;
      for (const wire::Message& message : answer(std::get<wire::Hello>(*first))) peer.send(message);
      while (const std::optional<wire::Message> more = peer.receive()) got.push_back(*more);
    });
  }
  ~Impostor() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port = 0;
  std::vector<wire::Message> got;  // besides the Hello; after join()

 private:
  UniqueFd listener_;
  std::thread thread_;
};

// The side that dials says nothing but its Hello to one that has not proven itself.
TEST(Secret, AnImpostorGetsAHelloAndNothingElse) {
  const wire::Welcome welcome{0, 100};
  const auto challenge = [](char secret, Rank rank) {
    return [=](const wire::Hello& hello) {
      return std::vector<wire::Message>{AcceptorProof(means(secret), hello, rank).challenge(), wire::Welcome{0, 100}};
    };
  };
  struct Case {
    const char* what;
    std::function<std::vector<wire::Message>(const wire::Hello&)> answer;
    std::string refuse;
  };
  const std::vector<Case> cases = {
      {"Welcome at once",
       [=](const wire::Hello&) {
         return std::vector<wire::Message>{welcome, wire::Ready{}};
       },
       "field=\"secret\", ours=\"none\""},
      {"its own words",
       [](const wire::Hello&) {
         return std::vector<wire::Message>{wire::Refuse{2, "run_digest", "a", "b"}};
       },
       "field=\"secret\", ours=\"none\""},
      {"another secret", challenge('x', 0), "field=\"secret\", ours=\"another\""},
      {"an empty challenge",
       [=](const wire::Hello&) {
         return std::vector<wire::Message>{wire::Challenge{}, welcome};
       },
       "field=\"secret\", ours=\"another\""},
      // As if it had shown the Hello to another task, or to the one that it is from.
      {"the proof of rank 2", challenge('s', 2), "field=\"wanted_rank\", ours=\"2\", theirs=\"0\""},
      {"the proof of the task itself", challenge('s', 1), "field=\"wanted_rank\", ours=\"1\", theirs=\"0\""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Impostor impostor(c.answer);
    Task worker(with_secret(worker_config(impostor.port)));
    EXPECT_THAT(worker.events.await("refused by 0"), HasSubstr(c.refuse));
    impostor.join();
    EXPECT_TRUE(impostor.got.empty());
    EXPECT_EQ(worker.events.count("connected"), 0u);
  }
}

Endpoint here(uint16_t port) { return {"", "127.0.0.1", port}; }

TEST(Secret, AGuestMayProveIt) {
  Task server(with_secret(server_config()));
  GuestClient guest("0.1.0", means('s')), plain("0.1.0"), wrong("0.1.0", means('x'));
  EXPECT_TRUE(guest.connect(here(server.transport->port()), 20 * kSecond));
  EXPECT_TRUE(plain.connect(here(server.transport->port()), 20 * kSecond)) << "from this host";
  const Result<size_t> refused = wrong.connect(here(server.transport->port()), 20 * kSecond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kAuthentication);
  EXPECT_THAT(refused.error().message, HasSubstr("has no secret, or another one than this guest"));
}

TEST(Secret, AGuestTakesNothingFromATaskWithout) {
  Task server(server_config());
  GuestClient guest("0.1.0", means('s'));
  const Result<size_t> refused = guest.connect(here(server.transport->port()), 20 * kSecond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kAuthentication);
  EXPECT_TRUE(server.events.all().empty());
}

}  // namespace
}  // namespace dtrain::net
