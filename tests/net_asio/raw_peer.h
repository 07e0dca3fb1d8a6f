// A peer made of a plain blocking socket, that sends whatever bytes a test wants.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "net/asio/unique_fd.h"
#include "proto-free-wire/frame_reader.h"

namespace dtrain::net {

class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), reader_(wire::kPeerLimits) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  static std::vector<std::byte> frame(const wire::Message& message, ByteSpan payload = {}) {
    std::vector<std::byte> bytes;
    wire::append_head(message, payload, bytes);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }
  void send_bytes(ByteSpan bytes) { ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void send(const wire::Message& message, ByteSpan payload = {}) { send_bytes(frame(message, payload)); }

  // The next message; nothing at the end of the stream.
  std::optional<wire::Message> receive() {
    while (true) {
      auto frame = reader_.next();
      EXPECT_TRUE(frame);
      if (!frame) return std::nullopt;
      if (*frame) return (*frame)->message;
      const MutableByteSpan space = reader_.space()[0];
      const ssize_t n = ::recv(fd_.get(), space.data(), space.size(), 0);
      EXPECT_TRUE(n >= 0 || errno == ECONNRESET) << "nothing came";
      ended_ = n == 0 || (n < 0 && errno == ECONNRESET);
      if (n <= 0) return std::nullopt;
      reader_.filled(static_cast<size_t>(n));
    }
  }
  // The other side has closed, whatever it sent before.
  bool closed() {
    while (receive()) {
    }
    return ended_;
  }
  void close() { fd_.reset(); }

  // Hello as rank 1 to a server of server_config(), and its Welcome.
  static wire::Hello hello(uint64_t incarnation = 200) {
    wire::Hello hello;
    hello.protocol = wire::kProtocolVersion;
    hello.program = "0.1.0";
    hello.rank = 1;
    hello.incarnation = incarnation;
    return hello;
  }
  void join(uint64_t incarnation = 200) {
    send(hello(incarnation));
    const std::optional<wire::Message> answer = receive();
    ASSERT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
  }

 private:
  UniqueFd fd_;
  wire::FrameReader reader_;
  bool ended_ = false;
};

}  // namespace dtrain::net
