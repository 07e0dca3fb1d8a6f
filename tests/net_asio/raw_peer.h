// A peer made of a plain blocking socket, that sends whatever bytes a test wants.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/asio/socket_address.h"
#include "net/asio/unique_fd.h"
#include "proto-free-wire/frame_reader.h"

namespace dtrain::net {

class RawPeer {
 public:
  enum class Way { kTcp, kHost };
  // To a task of 127.0.0.1, over TCP or over its Unix-domain twin.
  explicit RawPeer(uint16_t port, Way way = Way::kTcp) : reader_(wire::kPeerLimits) {
    SocketAddress address = *parse_address("127.0.0.1", port);
    if (way == Way::kHost) address = abstract_twin(address);
    fd_ = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_.get(), address.get(), address.size), 0);
  }

  // At the other end of a connection that it accepted.
  explicit RawPeer(UniqueFd socket) : fd_(std::move(socket)), reader_(wire::kPeerLimits) {
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }

  static std::vector<std::byte> frame(const wire::Message& message, ByteSpan payload = {}) {
    std::vector<std::byte> bytes;
    wire::append_head(message, payload, bytes);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }
  void send_bytes(ByteSpan bytes) { ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void send(const wire::Message& message, ByteSpan payload = {}) { send_bytes(frame(message, payload)); }
  void send_reference(const wire::Message& message, const wire::MemoryReference& reference) {
    std::vector<std::byte> bytes;
    wire::append_reference_head(message, reference, bytes);
    send_bytes(bytes);
  }
  // A frame with a descriptor beside it.
  void send_with(const wire::Message& message, int fd) {
    std::vector<std::byte> bytes = frame(message);
    iovec piece{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* head = CMSG_FIRSTHDR(&header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(int));
    EXPECT_EQ(::sendmsg(fd_.get(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // Whether the last message's payload was referred to.
  const std::optional<wire::MemoryReference>& reference() const { return reference_; }
  // The next message; nothing at the end of the stream.
  std::optional<wire::Message> receive() {
    while (true) {
      auto frame = reader_.next();
      EXPECT_TRUE(frame);
      if (!frame) return std::nullopt;
      if (*frame) reference_ = (*frame)->reference;
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
  // Says nothing more, but hears.
  void shut() { ::shutdown(fd_.get(), SHUT_WR); }

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
  std::optional<wire::MemoryReference> reference_;
  bool ended_ = false;
};

}  // namespace dtrain::net
