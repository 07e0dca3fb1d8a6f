#include "net/asio/connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "net/asio/outgoing.h"
#include "net/asio/peer_memory.h"
#include "net/asio/socket_address.h"
#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame_reader.h"

namespace dtrain::net {
namespace {

// How often one socket is read, or written, before others have their turn.
constexpr int kTurns = 8;
// After so many tensors that were read from its memory the other side is told.
constexpr uint32_t kTellAfter = 4;
constexpr size_t kDescriptors = 16;  // that one read can bring

bool prepare_socket(int fd) {
  const int yes = 1, buffer = 1 << 20;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_UNIX) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    return true;
  }
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  return false;
}

class SocketConnection final : public Connection {
 public:
  SocketConnection(asio::io_context& loop, UniqueFd fd, Limits limits, std::shared_ptr<SharedMemory> memory,
                   Owner& owner)
      : loop_(loop),
        socket_(loop),
        owner_(&owner),
        limits_(limits),
        memory_(std::move(memory)),
        peer_(peer_text(fd.get())),
        on_host_(prepare_socket(fd.get())),
        reader_(wire::kStrangerLimits) {
    asio::error_code ec;
    socket_.assign(fd.get(), ec);
    if (!ec) fd.release();  // otherwise the first read fails
  }

  void start() override { wait_to_read(); }
  void trust(bool shares) override {
    shares_ = shares;
    reader_.set_limits(wire::kPeerLimits);
    if (on_host_ && shares) out_.share(std::move(memory_));
  }

  void send(wire::Message message, wire::Payload payload) override {
    if (owner_ == nullptr || finishing_) return;
    add(std::move(message), std::move(payload));
    write_soon();
  }

  void close() override {
    owner_ = nullptr;
    out_.drop();
    if (out_.lent() && !ended_ && socket_.is_open()) {
      ::shutdown(socket_.native_handle(), SHUT_WR);
      return wait_to_read();  // which holds this until the other side has closed
    }
    out_.take_back();
    asio::error_code ignored;
    socket_.close(ignored);
  }

  void finish() override {
    if (finishing_) return;
    finishing_ = true;
    write_soon();
  }

  size_t queued_bytes() const override { return out_.queued_bytes(); }
  uint64_t bytes_read() const override { return bytes_read_; }
  uint64_t bytes_written() const override { return bytes_written_; }
  const std::string& peer() const override { return peer_; }

 private:
  // All that is sent, also what the connection itself answers.
  void add(wire::Message message, wire::Payload payload) {
    out_.add(std::move(message), std::move(payload));
    if (out_.control_bytes() > limits_.control || out_.tensor_bytes() > limits_.tensors)
      asio::post(loop_, [self = shared()] { self->fail("it does not read what it is sent"); });
  }

  std::shared_ptr<SocketConnection> shared() { return std::static_pointer_cast<SocketConnection>(shared_from_this()); }

  void fail(const std::string& reason) {
    Owner* owner = owner_;
    if (owner == nullptr) return;
    close();
    owner->on_closed(reason);
  }
  // The other side reads no more.
  void fail_at_the_end(const std::string& reason) {
    ended_ = true;
    fail(reason);
  }

  void wait_to_read();
  void read();
  ssize_t receive(std::span<iovec> spaces);
  void discard();
  void parse();
  Status take(wire::Frame& frame);
  Status take_memory(const wire::Message& message);
  void tell_what_was_read();

  void write_soon();
  void write();
  ssize_t send_batch();

  asio::io_context& loop_;
  asio::posix::stream_descriptor socket_;
  Owner* owner_;  // null: closed, though it may wait for the end of the other side
  const Limits limits_;
  std::shared_ptr<SharedMemory> memory_;  // until it may be shared
  const std::string peer_;
  const bool on_host_;
  bool shares_ = false, finishing_ = false, foreign_ = false, ended_ = false;

  wire::FrameReader reader_;
  std::deque<UniqueFd> descriptors_;  // that no frame has spoken of yet
  PeerMemory peer_memory_;
  uint32_t read_references_ = 0;  // that the other side was not told of
  uint64_t bytes_read_ = 0, bytes_written_ = 0;

  Outgoing out_;
  bool write_posted_ = false, waits_to_write_ = false, waits_to_read_ = false, shut_down_ = false;
};

// -- reading --

void SocketConnection::wait_to_read() {
  if (std::exchange(waits_to_read_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared()](const asio::error_code& ec) {
    self->waits_to_read_ = false;
    if (self->owner_ == nullptr) return self->discard();
    if (ec) return self->fail_at_the_end(ec.message());
    self->read();
  });
}

// Waits for the end of the other side, which may be reading what it was lent.
void SocketConnection::discard() {
  std::array<std::byte, 4096> nothing;
  for (int turn = 0; socket_.is_open() && turn < kTurns; ++turn) {
    const ssize_t n = ::recv(socket_.native_handle(), nothing.data(), nothing.size(), MSG_DONTWAIT);
    if (n > 0) continue;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    out_.take_back();
    asio::error_code ignored;
    socket_.close(ignored);
  }
  if (socket_.is_open()) wait_to_read();
}

// As recvmsg; keeps the descriptors that come along.
ssize_t SocketConnection::receive(std::span<iovec> spaces) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = spaces.data();
  message.msg_iovlen = spaces.size();
  if (on_host_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n <= 0 || !on_host_) return n;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      descriptors_.emplace_back(fd);
    }
  }
  return n;
}

void SocketConnection::read() {
  for (int turn = 0; turn < kTurns; ++turn) {
    std::array<std::byte, 512> discarded;
    std::array<iovec, 2> spaces{};
    size_t offered = 0, count = 1;
    if (foreign_) {  // only the end of the stream is of interest
      spaces[0] = {discarded.data(), discarded.size()};
      offered = discarded.size();
    } else {
      const std::array<MutableByteSpan, 2> to = reader_.space();
      for (size_t i = 0; i < to.size(); ++i) spaces[i] = {to[i].data(), to[i].size()};
      offered = to[0].size() + to[1].size();
      count = to[1].empty() ? 1 : 2;
    }
    const ssize_t n = receive(std::span(spaces).first(count));
    if (n == 0) {
      const bool inside = !foreign_ && !finishing_ && reader_.inside_frame();
      return fail_at_the_end(inside ? "it closed the connection in the middle of a frame" : "it closed the connection");
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return fail_at_the_end(asio::error_code(errno, asio::error::get_system_category()).message());
    bytes_read_ += static_cast<uint64_t>(n);
    if (!foreign_) {
      reader_.filled(static_cast<size_t>(n));
      parse();
    }
    if (owner_ == nullptr) break;
    // More than anybody has to share, or from somebody who has nothing to share.
    if (descriptors_.size() > (shares_ ? 2 * kDescriptors : 0)) return fail("it sent descriptors that nobody wants");
    if (static_cast<size_t>(n) < offered) break;  // that was all for now
  }
  if (socket_.is_open()) wait_to_read();
}

void SocketConnection::parse() {
  while (owner_ != nullptr) {
    Result<std::optional<wire::Frame>> frame = reader_.next();
    if (!frame && reader_.foreign_version()) {
      foreign_ = true;
      return owner_->on_foreign_version(*reader_.foreign_version());
    }
    if (!frame) return fail(frame.error().message);
    if (!*frame) break;
    if (const Status taken = take(**frame); !taken) return fail(taken.error().message);
  }
  tell_what_was_read();
}

Status SocketConnection::take(wire::Frame& frame) {
  const auto type = static_cast<uint16_t>(wire::type_of(frame.message));
  if (shares_ && type >= static_cast<uint16_t>(wire::MessageType::kMemoryOffered) &&
      type <= static_cast<uint16_t>(wire::MessageType::kMemoryRead))
    return take_memory(frame.message);
  ByteSpan payload = frame.payload;
  if (frame.reference) {
    DTRAIN_TRY_ASSIGN(payload, peer_memory_.at(*frame.reference));
  }
  if (!finishing_) owner_->on_frame(frame.message, payload);
  if (frame.reference && ++read_references_ >= kTellAfter) tell_what_was_read();
  return {};
}

Status SocketConnection::take_memory(const wire::Message& message) {
  if (const auto* offered = std::get_if<wire::MemoryOffered>(&message)) {
    UniqueFd descriptor;
    if (!descriptors_.empty()) {
      descriptor = std::move(descriptors_.front());
      descriptors_.pop_front();
    }
    DTRAIN_TRY_ASSIGN(const bool mapped, peer_memory_.add(*offered, std::move(descriptor)));
    add(wire::MemoryShared{offered->region, mapped}, {});
    write_soon();
  } else if (const auto* gone = std::get_if<wire::MemoryGone>(&message)) {
    DTRAIN_TRY(peer_memory_.remove(*gone));
  } else if (const auto* shared = std::get_if<wire::MemoryShared>(&message)) {
    DTRAIN_TRY(out_.on(*shared));
  } else if (const auto* read = std::get_if<wire::MemoryRead>(&message)) {
    DTRAIN_TRY(out_.on(*read));
    write_soon();
  }
  return {};
}

void SocketConnection::tell_what_was_read() {
  if (owner_ == nullptr || read_references_ == 0 || shut_down_) return;
  add(wire::MemoryRead{std::exchange(read_references_, 0)}, {});
  write();
}

// -- writing --

// Not at once: what else is sent in the same turn of the loop goes into the same write.
void SocketConnection::write_soon() {
  if (write_posted_ || waits_to_write_ || owner_ == nullptr) return;
  write_posted_ = true;
  asio::post(loop_, [self = shared()] {
    self->write_posted_ = false;
    self->write();
  });
}

ssize_t SocketConnection::send_batch() {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
  const std::span<iovec> pieces = out_.pieces();
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  if (const std::vector<int>& fds = out_.descriptors(); !fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  return ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void SocketConnection::write() {
  for (int turn = 0; owner_ != nullptr && !waits_to_write_; ++turn) {
    if (out_.pieces().empty() && !out_.prepare()) {
      if (finishing_ && out_.queued_bytes() == 0 && !std::exchange(shut_down_, true))
        ::shutdown(socket_.native_handle(), SHUT_WR);
      return;
    }
    if (turn == kTurns) return write_soon();
    const ssize_t n = send_batch();
    if (n >= 0) {
      bytes_written_ += static_cast<uint64_t>(n);
      out_.written(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      waits_to_write_ = true;
      socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared()](const asio::error_code& ec) {
        self->waits_to_write_ = false;
        if (ec) return self->fail(ec.message());
        self->write();
      });
    } else if (errno != EINTR) {
      return fail(asio::error_code(errno, asio::error::get_system_category()).message());
    }
  }
}

}  // namespace

std::shared_ptr<Connection> Connection::make(asio::io_context& loop, UniqueFd socket, Limits limits,
                                             std::shared_ptr<SharedMemory> memory, Owner& owner) {
  return std::make_shared<SocketConnection>(loop, std::move(socket), limits, std::move(memory), owner);
}

}  // namespace dtrain::net
