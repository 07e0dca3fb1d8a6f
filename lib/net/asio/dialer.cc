#include "net/asio/dialer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio.hpp>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "net/asio/socket_address.h"

namespace dtrain::net {

// Kept alive by its handlers; on_done is empty when it is over.
struct Dialer::Attempt : std::enable_shared_from_this<Attempt> {
  Attempt(asio::io_context& loop_in, const Endpoint& endpoint_in, Nanoseconds timeout_in, bool host_sockets_in,
          OnDone on_done_in)
      : loop(loop_in),
        endpoint(endpoint_in),
        timeout(timeout_in),
        host_sockets(host_sockets_in),
        on_done(std::move(on_done_in)),
        resolver(loop_in),
        socket(loop_in),
        timer(loop_in) {}

  bool refused() const { return refusals > 0 && refusals == notes; }

  void start() {
    if (const std::optional<SocketAddress> address = parse_address(endpoint.host, endpoint.port)) {
      add(*address);
      asio::post(loop, [self = shared_from_this()] { self->try_next(); });
      return;
    }
    resolver.async_resolve(
        endpoint.host, std::to_string(endpoint.port), asio::ip::tcp::resolver::numeric_service,
        [self = shared_from_this()](const asio::error_code& ec, const asio::ip::tcp::resolver::results_type& found) {
          if (ec) self->note("the name '" + self->endpoint.host + "'", ec.message());
          for (const auto& entry : found) {
            const asio::ip::tcp::endpoint tcp = entry.endpoint();
            SocketAddress address;
            address.size = static_cast<socklen_t>(tcp.size());
            std::memcpy(&address.storage, tcp.data(), tcp.size());
            self->add(address);
          }
          self->try_next();
        });
  }

  void cancel() {
    on_done = nullptr;
    asio::error_code ignored;
    resolver.cancel();
    socket.close(ignored);
    timer.cancel();
  }

 private:
  void add(const SocketAddress& address) {
    if (host_sockets && is_local(address)) candidates.push_back(abstract_twin(address));
    candidates.push_back(address);
  }

  void note(const std::string& where, std::string what) {
    ++notes;
    if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", where, what);
  }

  void finish(Result<UniqueFd> result) {
    timer.cancel();
    const OnDone done = std::exchange(on_done, nullptr);
    if (done) done(std::move(result));
  }

  void try_next() {
    if (!on_done) return;
    if (next == candidates.size()) return finish(fail(ExitCode::kPeerLost, tried));
    const SocketAddress& address = candidates[next++];
    UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int rc = fd.valid() ? ::connect(fd.get(), address.get(), address.size) : -1;
    // A Unix-domain socket whose listener's backlog is full says EAGAIN: TCP is tried then.
    if (rc != 0 && errno != EINPROGRESS) return failed(address, errno);
    asio::error_code ec;
    socket.assign(fd.get(), ec);
    if (ec) return failed(address, ec.value());
    fd.release();
    if (rc == 0) return connected(address);
    timer.expires_after(std::chrono::nanoseconds(timeout));
    timer.async_wait([self = shared_from_this(), turn = next](const asio::error_code& ec) {
      if (ec || self->next != turn || !self->on_done) return;
      self->failed(self->candidates[turn - 1], ETIMEDOUT);
    });
    socket.async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this(), turn = next](const asio::error_code& ec) {
                        if (ec || self->next != turn || !self->on_done) return;
                        self->connected(self->candidates[turn - 1]);
                      });
  }

  void connected(const SocketAddress& address) {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && address.family() == AF_UNIX && !same_user(socket.native_handle())) error = EPERM;
    if (error != 0) return failed(address, error);
    finish(UniqueFd(socket.release()));
  }

  void failed(const SocketAddress& address, int error) {
    asio::error_code ignored;
    socket.close(ignored);
    timer.cancel();
    // That nobody answers at the twin says nothing that TCP does not say as well.
    refusals += address.family() != AF_UNIX && error == ECONNREFUSED;
    if (address.family() != AF_UNIX) note(address.text(), std::strerror(error));
    try_next();
  }

  asio::io_context& loop;
  const Endpoint endpoint;
  const Nanoseconds timeout;
  const bool host_sockets;
  OnDone on_done;
  asio::ip::tcp::resolver resolver;
  asio::posix::stream_descriptor socket;
  asio::steady_timer timer;
  std::vector<SocketAddress> candidates;
  size_t next = 0;
  std::string tried;
  int notes = 0, refusals = 0;
};

Dialer::Dialer(asio::io_context& loop, const Endpoint& endpoint, Nanoseconds timeout, bool host_sockets, OnDone on_done)
    : attempt_(std::make_shared<Attempt>(loop, endpoint, timeout, host_sockets, std::move(on_done))) {
  attempt_->start();
}

Dialer::~Dialer() { attempt_->cancel(); }

bool Dialer::refused() const { return attempt_->refused(); }

}  // namespace dtrain::net
