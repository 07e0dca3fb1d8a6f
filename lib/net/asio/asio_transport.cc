#include "net/asio/asio_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <utility>

#include "base/check.h"
#include "net/asio/asio_transport_impl.h"
#include "net/asio/bound_port.h"
#include "net/asio/durations.h"
#include "net/asio/socket_address.h"
#include "net/handshake.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {
AsioTransport::Impl::Impl(AsioConfig config, Log& log)
    : config_(std::move(config)), log_(log), loop_(1), tick_(loop_), progress_(loop_) {
  config_.hello.rank = config_.self;
  config_.hello.protocol = wire::kProtocolVersion;
  DTRAIN_CHECK(wire::encode(config_.hello).size() <= wire::kStrangerLimits.fields, "Hello is too long");
  if (!config_.check) {
    config_.check = [ours = config_.hello](const wire::Hello& theirs) { return first_difference(ours, theirs); };
  }
  peers_.resize(config_.endpoints.size());
  for (const Rank rank : config_.dial) peers_.at(rank).dial = true;
  for (const Rank rank : config_.awaited) peers_.at(rank).awaited = true;
  const Timeouts& t = config_.timeouts;
  period_ = std::max<Nanoseconds>(std::min(t.heartbeat / 2, t.peer / 8), kMillisecond);
}

Status AsioTransport::Impl::listen() {
  BoundPort bound;
  const Endpoint& own = config_.endpoints[config_.self];
  if (own.host.empty() && config_.listen_fds.empty()) return {};  // nobody dials this task
  if (config_.listen_fds.empty()) {
    DTRAIN_TRY_ASSIGN(bound, bind_port(own.host, own.port, log_));
  } else {
    DTRAIN_TRY_ASSIGN(bound, adopt_port(config_.listen_fds));
  }
  port_ = bound.port;
  for (const UniqueFd& fd : bound.sockets)
    open_to_other_hosts_ = open_to_other_hosts_ || !own_address(fd.get()).is_loopback();
  DTRAIN_TRY_ASSIGN(listener_, Listener::listen(loop_, std::move(bound), log_));
  return {};
}

// -- time --

void AsioTransport::Impl::keep_ticking() {
  tick_.expires_after(duration(period_));
  tick_.async_wait([this](const asio::error_code& ec) {
    if (ec) return;
    tick();
    keep_ticking();
  });
}

// Whether something was heard since the last tick. Counts turns of the loop rather than the clock: a task that was
// frozen does not accuse the others when it wakes.
bool AsioTransport::Impl::look_after(Session& session) {
  const uint64_t read = session.connection->bytes_read(), written = session.connection->bytes_written();
  const bool heard = std::exchange(session.read, read) != read;
  session.silent = heard ? 0 : session.silent + period_;
  const bool said = std::exchange(session.written, written) != written;
  session.quiet = said ? 0 : session.quiet + period_;
  session.frames = 0;
  if (session.quiet >= config_.timeouts.heartbeat && session.connection->queued_bytes() == 0) {
    session.quiet = 0;
    session.connection->send(wire::Heartbeat{}, {});
  }
  return heard;
}

void AsioTransport::Impl::tick() {
  std::vector<Session*> silent;
  for (Peer& peer : peers_) {
    if (peer.session == nullptr) continue;
    Session& session = *peer.session;
    const bool heard = look_after(session);
    // What a dead process had written before it died comes at once; what comes later is from a living one.
    if (peer.parked != nullptr && ++peer.parked->parked_ticks > 2 && heard) settle_parked(peer, true);
    if (session.silent >= config_.timeouts.peer) silent.push_back(&session);
  }
  for (const auto& [rank, session] : guests_) {
    look_after(*session);
    if (session->silent >= config_.timeouts.peer) silent.push_back(session);
  }
  for (Session* session : silent) lose(*session, "nothing heard for " + seconds(config_.timeouts.peer));
}

void AsioTransport::Impl::say_progress() {
  progress_.expires_after(duration(config_.timeouts.progress));
  progress_.async_wait([this](const asio::error_code& ec) {
    if (ec || draining_) return;
    for (Rank rank = 0; rank < peers_.size(); ++rank) {
      const Peer& peer = peers_[rank];
      if (peer.session != nullptr || peer.given_up) continue;
      const std::string at = to_string(endpoint(rank));
      if (peer.dial && peer.failure.starts_with(at)) {
        log_.info("waiting for {} at {}", endpoint(rank).name, peer.failure);
      } else if (peer.dial) {
        log_.info("waiting for {} at {}: {}", endpoint(rank).name, at,
                  peer.failure.empty() ? "no answer yet" : peer.failure);
      } else if (peer.awaited && !peer.met) {  // of one that was here its loss was said
        log_.info("waiting for {} to connect to {}", endpoint(rank).name, to_string(endpoint(config_.self)));
      }
    }
    say_progress();
  });
}

// -- what the owner asks for --

void AsioTransport::Impl::start(Handler& handler) {
  handler_ = &handler;
  if (listener_) listener_->start([this](UniqueFd socket) { accept(std::move(socket)); });
  for (const Rank rank : config_.dial) begin_dialling(rank);
  keep_ticking();
  say_progress();
  if (local_.size() > 0) pump_local();
}

void AsioTransport::Impl::send(Rank to, wire::Message message, wire::Payload payload) {
  if (to == config_.self) {
    local_.push(std::move(message), std::move(payload));
    if (handler_ != nullptr) pump_local();
  } else if (Session* session = session_of(to)) {
    session->connection->send(std::move(message), std::move(payload));
  }
}

// One turn of the loop delivers what is there now; sockets have their turn before what comes of it.
void AsioTransport::Impl::pump_local() {
  if (std::exchange(local_posted_, true)) return;
  asio::post(loop_, [this] {
    for (size_t n = local_.size(); n > 0; --n) local_.deliver_one(config_.self, *handler_);
    local_posted_ = false;
    if (local_.size() > 0) pump_local();
  });
}

size_t AsioTransport::Impl::queued_bytes(Rank to) const {
  if (to == config_.self) return local_.bytes();
  const Session* session = session_of(to);
  return session != nullptr ? session->connection->queued_bytes() : 0;
}

void AsioTransport::Impl::disconnect(Rank rank, const std::string& reason) {
  const Session* now = session_of(rank);
  if (now == nullptr) return;
  asio::post(loop_, [this, rank, number = now->number, reason] {
    Session* session = session_of(rank);
    if (session != nullptr && session->number == number) lose(*session, reason);
  });
}

void AsioTransport::Impl::drain(Nanoseconds deadline, std::function<void()> done) {
  DTRAIN_CHECK(!draining_, "drained twice");
  draining_ = true;
  drained_ = std::move(done);
  if (listener_) listener_->close();
  progress_.cancel();
  tick_.cancel();
  for (Peer& peer : peers_) {
    peer.dialer.reset();
    peer.retry.reset();
    peer.session = peer.parked = nullptr;
  }
  for (const auto& [rank, guest] : guests_) {  // they may not hold up the end
    guest->deadline.expires_after(std::chrono::milliseconds(300));
    guest->deadline.async_wait([this, session = guest](const asio::error_code& ec) {
      if (!ec) on_deadline(*session);
    });
  }
  guests_.clear();
  std::vector<Session*> others;
  for (const std::unique_ptr<Session>& session : sessions_) {
    if (session->stage == Stage::kEstablished) {
      session->stage = Stage::kEnding;
      session->connection->finish();
    } else if (session->stage != Stage::kEnding) {
      others.push_back(session.get());
    }
  }
  for (Session* session : others) remove(*session);
  drain_deadline_ = std::make_unique<asio::steady_timer>(loop_);
  drain_deadline_->expires_after(duration(deadline));
  drain_deadline_->async_wait([this](const asio::error_code& ec) {
    if (ec) return;
    while (!sessions_.empty()) remove(*sessions_.front());
  });
  asio::post(loop_, [this] { check_drained(); });
}

void AsioTransport::Impl::check_drained() {
  if (!draining_ || !sessions_.empty() || !drained_) return;
  drain_deadline_->cancel();
  const std::function<void()> done = std::exchange(drained_, nullptr);
  done();
}

// -- the class outside --

AsioTransport::AsioTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsioTransport::~AsioTransport() = default;

Result<std::unique_ptr<AsioTransport>> AsioTransport::create(AsioConfig config, Log& log) {
  DTRAIN_CHECK(config.self < config.endpoints.size());
  auto impl = std::make_unique<Impl>(std::move(config), log);
  DTRAIN_TRY(impl->listen());
  return std::unique_ptr<AsioTransport>(new AsioTransport(std::move(impl)));
}

Traffic AsioTransport::Impl::traffic() const {
  Traffic all = ended_traffic_;
  for (const std::unique_ptr<Session>& session : sessions_) {
    all.sent += session->connection->bytes_written();
    all.received += session->connection->bytes_read();
    all.queued += session->connection->queued_bytes();
  }
  return all;
}

Traffic AsioTransport::traffic() const { return impl_->traffic(); }
uint16_t AsioTransport::port() const { return impl_->port(); }
bool AsioTransport::open_to_other_hosts() const { return impl_->open_to_other_hosts(); }
void AsioTransport::start(Handler& handler) { impl_->start(handler); }
void AsioTransport::run() {
  const auto work = asio::make_work_guard(impl_->loop());
  impl_->loop().run();
  impl_->loop().restart();  // for the next run(); a stop() before this one was heeded
}
void AsioTransport::stop() { impl_->loop().stop(); }
void AsioTransport::post(std::function<void()> function) { asio::post(impl_->loop(), std::move(function)); }
void AsioTransport::after(Nanoseconds delay, std::function<void()> function) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->loop());
  timer->expires_after(duration(delay));
  timer->async_wait([timer, function = std::move(function)](const asio::error_code& ec) {
    if (!ec) function();
  });
}
void AsioTransport::drain_and_close(Nanoseconds deadline, std::function<void()> done) {
  impl_->drain(deadline, std::move(done));
}
void AsioTransport::send(Rank to, wire::Message message, wire::Payload payload) {
  impl_->send(to, std::move(message), std::move(payload));
}
Rank AsioTransport::self() const { return impl_->self(); }
bool AsioTransport::connected(Rank peer) const { return impl_->connected(peer); }
size_t AsioTransport::queued_bytes(Rank to) const { return impl_->queued_bytes(to); }
void AsioTransport::disconnect(Rank peer, const std::string& reason) { impl_->disconnect(peer, reason); }

}  // namespace dtrain::net
