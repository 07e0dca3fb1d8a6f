#include "net/asio/bare_echo.h"

#include <fcntl.h>
#include <unistd.h>

#include <asio.hpp>

#include "net/asio/socket_address.h"

namespace dtrain::net {
namespace {

// Both sides: the one that measures writes first.
class Echo {
 public:
  Echo(int fd, size_t bytes, size_t count, const Clock* clock)
      : fd_(fd), socket_(loop_), buffer_(bytes), left_(count), clock_(clock) {
    SocketAddress address;
    address.size = sizeof(address.storage);
    ::getsockname(fd, address.get(), &address.size);
    socket_.assign(asio::generic::stream_protocol(address.family(), 0), ::dup(fd), error_);
  }

  Status run() {
    if (!error_ && left_ > 0) clock_ ? write() : read();
    loop_.run();
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);  // as it was: Asio has changed it
    if (error_) return fail(ExitCode::kPeerLost, "the echo ended: " + error_.message());
    return {};
  }
  std::vector<Nanoseconds> times;

 private:
  void write() {
    if (clock_) sent_ = clock_->now();
    asio::async_write(socket_, asio::buffer(buffer_), [this](const asio::error_code& ec, size_t) {
      if (ec) error_ = ec;
      if (ec || (!clock_ && --left_ == 0)) return;
      read();
    });
  }
  void read() {
    asio::async_read(socket_, asio::buffer(buffer_), [this](const asio::error_code& ec, size_t) {
      if (ec) error_ = ec;
      if (ec) return;
      if (clock_) times.push_back(clock_->now() - sent_);
      if (clock_ && --left_ == 0) return;
      write();
    });
  }

  const int fd_;
  asio::io_context loop_{1};
  asio::generic::stream_protocol::socket socket_;
  std::vector<std::byte> buffer_;
  size_t left_;
  const Clock* clock_;  // of the side that measures
  Instant sent_ = 0;
  asio::error_code error_;
};

}  // namespace

Result<std::vector<Nanoseconds>> measure_echo(int fd, size_t bytes, size_t count, const Clock& clock) {
  Echo echo(fd, bytes, count, &clock);
  DTRAIN_TRY(echo.run());
  return std::move(echo.times);
}

Status answer_echo(int fd, size_t bytes, size_t count) { return Echo(fd, bytes, count, nullptr).run(); }

}  // namespace dtrain::net
