#include "net/asio/listener.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <asio.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "net/asio/socket_address.h"

namespace dtrain::net {

struct Listener::Socket {
  Socket(asio::io_context& loop, UniqueFd fd) : descriptor(loop), pause(loop) {
    asio::error_code ec;
    descriptor.assign(fd.get(), ec);
    if (!ec) fd.release();
  }
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer pause;
};

// Shared with the handlers in flight, which find `open` false after close().
struct Listener::State : std::enable_shared_from_this<State> {
  State(asio::io_context& loop_in, Log& log_in) : loop(loop_in), log(log_in) {}

  void wait(Socket& socket) {
    socket.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [self = shared_from_this(), &socket](const asio::error_code& error) {
                                   if (!error && self->open) self->accept_all(socket);
                                 });
  }
  void accept_all(Socket& socket);
  void pause(Socket& socket, int error);

  asio::io_context& loop;
  Log& log;
  bool open = true;
  bool said_pause = false;
  OnAccept on_accept;
  std::vector<std::unique_ptr<Socket>> sockets;
};

void Listener::State::accept_all(Socket& socket) {
  constexpr int kAtOnce = 32;  // then others have their turn
  for (int i = 0; i < kAtOnce && open; ++i) {
    UniqueFd fd(::accept4(socket.descriptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EAGAIN) break;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return pause(socket, errno);
      continue;  // the connection is gone already
    }
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
    if (own.ss_family == AF_UNIX && !same_user(fd.get())) continue;
    on_accept(std::move(fd));
  }
  if (open) wait(socket);
}

void Listener::State::pause(Socket& socket, int error) {
  if (!said_pause) log.warning("cannot accept connections for now: {}", std::strerror(error));
  said_pause = true;
  socket.pause.expires_after(std::chrono::milliseconds(100));
  socket.pause.async_wait([self = shared_from_this(), &socket](const asio::error_code& ec) {
    if (!ec && self->open) self->accept_all(socket);
  });
}

Listener::Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}
Listener::~Listener() { close(); }

Result<std::unique_ptr<Listener>> Listener::listen(asio::io_context& loop, BoundPort port, Log& log) {
  auto state = std::make_shared<State>(loop, log);
  for (UniqueFd& tcp : port.sockets) {
    SocketAddress address;
    address.size = sizeof(address.storage);
    ::getsockname(tcp.get(), address.get(), &address.size);
    // The twin first: whoever of this host gets through to TCP could have had the faster way. Where the name is taken
    // (by the same port in another container of this network), TCP must do.
    const SocketAddress twin = abstract_twin(address);
    UniqueFd local(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (local.valid() && ::bind(local.get(), twin.get(), twin.size) == 0 && ::listen(local.get(), SOMAXCONN) == 0) {
      state->sockets.push_back(std::make_unique<Socket>(loop, std::move(local)));
    }
    if (::listen(tcp.get(), SOMAXCONN) != 0) {
      if (errno == EADDRINUSE) return tl::unexpected<Error>(port_in_use(address.host(), address.port()));
      return fail(ExitCode::kUsage, fmt::format("cannot listen at {}: {}", address.text(), std::strerror(errno)));
    }
    state->sockets.push_back(std::make_unique<Socket>(loop, std::move(tcp)));
  }
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

void Listener::start(OnAccept on_accept) {
  state_->on_accept = std::move(on_accept);
  for (const std::unique_ptr<Socket>& socket : state_->sockets) state_->wait(*socket);
}

void Listener::close() {
  state_->open = false;
  for (const std::unique_ptr<Socket>& socket : state_->sockets) {
    asio::error_code ignored;
    socket->descriptor.close(ignored);
    socket->pause.cancel();
  }
}

}  // namespace dtrain::net
