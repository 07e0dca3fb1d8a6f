#include "net/asio/asio_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <list>
#include <utility>

#include "base/check.h"
#include "net/asio/bound_port.h"
#include "net/asio/connection.h"
#include "net/asio/dialer.h"
#include "net/asio/listener.h"
#include "net/handshake.h"
#include "net/local_queue.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::chrono::nanoseconds duration(Nanoseconds ns) { return std::chrono::nanoseconds(ns); }
std::string seconds(Nanoseconds ns) { return fmt::format("{:g} s", static_cast<double>(ns) / kSecond); }

wire::Refuse refusal(const char* field, std::string ours, std::string theirs) {
  return {static_cast<uint8_t>(ExitCode::kUsage), field, std::move(ours), std::move(theirs)};
}

enum class Stage {
  kAwaitsHello,   // accepted
  kAwaitsAnswer,  // dialled, Hello sent
  kParked,        // its Hello is good, but another incarnation of the task is connected, perhaps dead
  kEstablished,
  kEnding,  // nothing more is sent; waits for the other side to close
  kDead,
};

}  // namespace

// A connection and where it stands in its life.
class AsioTransport::Impl {
 public:
  Impl(AsioConfig config, Log& log) : config_(std::move(config)), log_(log), loop_(1), tick_(loop_), progress_(loop_) {
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

  Status listen() {
    BoundPort bound;
    const Endpoint& own = config_.endpoints[config_.self];
    if (config_.listen_fds.empty()) {
      DTRAIN_TRY_ASSIGN(bound, bind_port(own.host, own.port, log_));
    } else {
      DTRAIN_TRY_ASSIGN(bound, adopt_port(config_.listen_fds));
    }
    port_ = bound.port;
    DTRAIN_TRY_ASSIGN(listener_, Listener::listen(loop_, std::move(bound), log_));
    return {};
  }

  void start(Handler& handler);
  void drain(Nanoseconds deadline, std::function<void()> done);
  void send(Rank to, wire::Message message, wire::Payload payload);
  void disconnect(Rank peer, const std::string& reason);
  bool connected(Rank rank) const {
    return rank == config_.self || (rank < peers_.size() && peers_[rank].session != nullptr);
  }
  size_t queued_bytes(Rank to) const;

  asio::io_context& loop() { return loop_; }
  Rank self() const { return config_.self; }
  uint16_t port() const { return port_; }

 private:
  struct Session;
  struct Peer {
    bool dial = false, awaited = false;
    Session* session = nullptr;  // established
    Session* parked = nullptr;
    std::unique_ptr<Dialer> dialer;
    std::unique_ptr<asio::steady_timer> retry;
    Nanoseconds backoff = 0;
    SteadyClock::time_point dialled_since;
    std::string failure;  // of the last attempt
    bool given_up = false;
  };

  const Endpoint& endpoint(Rank rank) const { return config_.endpoints[rank]; }

  // dialling
  void begin_dialling(Rank rank);
  void dial(Rank rank);
  void dial_failed(Rank rank, const std::string& why);
  // sessions
  Session& open(UniqueFd socket, Stage stage, Rank rank);
  void accept(UniqueFd socket);
  void establish(Session& session, uint64_t incarnation);
  void remove(Session& session);
  void lose(Session& session, const std::string& reason);
  void turn_away(Session& session, const std::string& reason);
  void refuse(Session& session, const wire::Refuse& refuse);
  void refused(Session& session, const wire::Refuse& refuse);
  void on_hello(Session& session, const wire::Hello& hello);
  void on_answer(Session& session, const wire::Message& message);
  void on_deadline(Session& session);
  void complain(const std::string& what);
  // time
  void tick();
  void keep_ticking();
  void settle_parked(Peer& peer, bool old_one_lives);
  void say_progress();
  void pump_local();
  void check_drained();

  AsioConfig config_;
  Log& log_;
  asio::io_context loop_;  // first of what is built on it: destroyed last
  asio::steady_timer tick_, progress_;
  Nanoseconds period_ = 0;
  uint16_t port_ = 0;
  Handler* handler_ = nullptr;
  std::unique_ptr<Listener> listener_;
  std::vector<Peer> peers_;
  std::list<std::unique_ptr<Session>> sessions_;
  std::list<std::unique_ptr<Session>> removed_;  // until nobody of them is on the stack
  std::list<Session*> strangers_;                // accepted and not established, oldest first
  uint64_t opened_ = 0;
  LocalQueue local_;
  bool local_posted_ = false;
  bool draining_ = false;
  std::function<void()> drained_;
  std::unique_ptr<asio::steady_timer> drain_deadline_;
  std::optional<SteadyClock::time_point> complained_;
  uint64_t complaints_held_ = 0;
};

struct AsioTransport::Impl::Session final : Connection::Owner {
  Session(Impl& transport_in, Stage stage_in, Rank rank_in, uint64_t number_in)
      : transport(transport_in), stage(stage_in), rank(rank_in), number(number_in), deadline(transport_in.loop_) {}

  void on_frame(const wire::Message& message, ByteSpan payload) override {
    const wire::MessageType type = wire::type_of(message);
    const bool of_handshake =
        type == wire::MessageType::kHello || type == wire::MessageType::kWelcome || type == wire::MessageType::kRefuse;
    if (stage == Stage::kEstablished && !of_handshake) {
      if (type != wire::MessageType::kHeartbeat) transport.handler_->on_message(rank, message, payload);
    } else if (stage == Stage::kEstablished) {
      transport.lose(*this, "it sent " + wire::name_of(type) + " after the handshake");
    } else if (stage == Stage::kAwaitsHello && type == wire::MessageType::kHello) {
      transport.on_hello(*this, std::get<wire::Hello>(message));
    } else if (stage == Stage::kAwaitsAnswer) {
      transport.on_answer(*this, message);
    } else {
      transport.turn_away(*this, "it sent " + wire::name_of(type) + " in the handshake");
    }
  }

  void on_foreign_version(uint16_t version) override {
    const wire::Refuse difference =
        refusal("protocol", std::to_string(wire::kProtocolVersion), std::to_string(version));
    if (stage == Stage::kAwaitsHello) return transport.refuse(*this, difference);
    if (stage != Stage::kAwaitsAnswer) return on_closed("it speaks another version of the protocol");
    transport.refused(*this, refusal("protocol", difference.theirs, difference.ours));
  }

  void on_closed(const std::string& reason) override {
    switch (stage) {
      case Stage::kEstablished:
        return transport.lose(*this, reason);
      case Stage::kAwaitsHello:
      case Stage::kParked:
        return transport.turn_away(*this, reason);
      case Stage::kAwaitsAnswer: {
        Impl& t = transport;
        const Rank whom = rank;
        t.remove(*this);
        return t.dial_failed(whom, fmt::format("{} ({})", to_string(t.endpoint(whom)), reason));
      }
      case Stage::kEnding:
        return transport.remove(*this);
      case Stage::kDead:
        return;
    }
  }

  Impl& transport;
  Stage stage;
  Rank rank;  // of the other side; of an accepted one once it has said Hello
  const uint64_t number;
  asio::steady_timer deadline;  // of the handshake, or of the end
  std::shared_ptr<Connection> connection;
  uint64_t incarnation = 0;
  // What the last tick saw, and for how long it has not changed.
  uint64_t read = 0, written = 0;
  Nanoseconds silent = 0, quiet = 0;
  int parked_ticks = 0;
};

// -- dialling --

void AsioTransport::Impl::begin_dialling(Rank rank) {
  Peer& peer = peers_[rank];
  peer.dialled_since = SteadyClock::now();
  peer.backoff = config_.timeouts.retry_first;
  peer.failure.clear();
  dial(rank);
}

void AsioTransport::Impl::dial(Rank rank) {
  if (draining_) return;
  peers_[rank].dialer = std::make_unique<Dialer>(
      loop_, endpoint(rank), config_.timeouts.handshake, [this, rank](Result<UniqueFd> socket) {
        peers_[rank].dialer.reset();
        if (!socket) return dial_failed(rank, socket.error().message);
        Session& session = open(std::move(*socket), Stage::kAwaitsAnswer, rank);
        wire::Hello hello = config_.hello;
        hello.wanted_rank = rank;
        session.connection->send(hello, {});
      });
}

void AsioTransport::Impl::dial_failed(Rank rank, const std::string& why) {
  Peer& peer = peers_[rank];
  if (draining_) return;
  peer.failure = why;
  const auto waited = SteadyClock::now() - peer.dialled_since;
  if (waited >= duration(config_.timeouts.start)) {
    peer.given_up = true;
    const std::string reason = fmt::format("{} at {} could not be reached within {}: {}", endpoint(rank).name,
                                           to_string(endpoint(rank)), seconds(config_.timeouts.start), why);
    log_.error("{}", reason);
    return handler_->on_unreachable(rank, reason);
  }
  const auto left = duration(config_.timeouts.start) - waited;
  peer.retry = std::make_unique<asio::steady_timer>(loop_);
  peer.retry->expires_after(std::min<SteadyClock::duration>(duration(peer.backoff), left));
  peer.retry->async_wait([this, rank](const asio::error_code& ec) {
    if (!ec) dial(rank);
  });
  peer.backoff = std::min(2 * peer.backoff, config_.timeouts.retry_longest);
}

// -- sessions --

AsioTransport::Impl::Session& AsioTransport::Impl::open(UniqueFd socket, Stage stage, Rank rank) {
  sessions_.push_back(std::make_unique<Session>(*this, stage, rank, ++opened_));
  Session& session = *sessions_.back();
  session.connection = Connection::make(loop_, std::move(socket), config_.most_control, session);
  session.deadline.expires_after(duration(config_.timeouts.handshake));
  session.deadline.async_wait([this, &session](const asio::error_code& ec) {
    if (!ec) on_deadline(session);
  });
  session.connection->start();
  return session;
}

void AsioTransport::Impl::accept(UniqueFd socket) {
  if (draining_) return;
  if (strangers_.size() >= config_.most_strangers) turn_away(*strangers_.front(), "too many others came after it");
  strangers_.push_back(&open(std::move(socket), Stage::kAwaitsHello, config_.self));
}

void AsioTransport::Impl::establish(Session& session, uint64_t incarnation) {
  if (session.stage != Stage::kAwaitsAnswer)
    session.connection->send(wire::Welcome{config_.self, config_.hello.incarnation}, {});
  session.stage = Stage::kEstablished;
  session.incarnation = incarnation;
  session.deadline.cancel();
  session.connection->trust();
  strangers_.remove(&session);
  peers_[session.rank].session = &session;
  handler_->on_connected(session.rank, incarnation);
}

// The session may be on the stack: it lives until the loop's next turn.
void AsioTransport::Impl::remove(Session& session) {
  if (session.stage == Stage::kDead) return;
  session.stage = Stage::kDead;
  session.connection->close();
  session.deadline.cancel();
  strangers_.remove(&session);
  for (Peer& peer : peers_) {
    if (peer.session == &session) peer.session = nullptr;
    if (peer.parked == &session) peer.parked = nullptr;
  }
  const auto found =
      std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& s) { return s.get() == &session; });
  removed_.splice(removed_.end(), sessions_, found);
  asio::post(loop_, [this] {
    removed_.clear();
    check_drained();
  });
}

void AsioTransport::Impl::lose(Session& session, const std::string& reason) {
  const Rank rank = session.rank;
  remove(session);
  handler_->on_lost(rank, reason);
  Peer& peer = peers_[rank];
  if (peer.parked != nullptr && peer.session == nullptr) settle_parked(peer, false);
  if (!peer.dial || peer.session != nullptr || peer.given_up) return;
  peer.dialled_since = SteadyClock::now();
  peer.backoff = config_.timeouts.retry_first;
  dial_failed(rank, fmt::format("{} ({})", to_string(endpoint(rank)), reason));
}

// Of a stranger nothing is told to anybody but, now and then, the log.
void AsioTransport::Impl::turn_away(Session& session, const std::string& reason) {
  complain(fmt::format("closed a connection from {}: {}", session.connection->peer(), reason));
  remove(session);
}

void AsioTransport::Impl::refuse(Session& session, const wire::Refuse& refuse) {
  complain(fmt::format("refused a task at {}: {} differs: {} here, {} there", session.connection->peer(), refuse.field,
                       printable(refuse.ours), printable(refuse.theirs)));
  wire::Refuse answer = refuse;
  answer.ours.resize(std::min<size_t>(answer.ours.size(), 1000));  // the answer must pass a stranger's limits
  answer.theirs.resize(std::min<size_t>(answer.theirs.size(), 1000));
  session.connection->send(answer, {});
  session.stage = Stage::kEnding;  // its deadline still runs
  session.connection->finish();
}

void AsioTransport::Impl::refused(Session& session, const wire::Refuse& refuse) {
  const Rank by = session.rank;
  peers_[by].given_up = true;
  remove(session);
  log_.error("{}", explain(refuse, endpoint(by)));
  handler_->on_refused(by, refuse);
}

void AsioTransport::Impl::on_hello(Session& session, const wire::Hello& hello) {
  if (const std::optional<wire::Refuse> difference = config_.check(hello)) return refuse(session, *difference);
  if (hello.wanted_rank != config_.self) {
    return refuse(session, refusal("wanted_rank", std::to_string(config_.self), std::to_string(hello.wanted_rank)));
  }
  if (hello.rank >= peers_.size() || hello.rank == config_.self || peers_[hello.rank].dial) {
    return refuse(session,
                  refusal("rank", "one that connects to " + endpoint(config_.self).name, std::to_string(hello.rank)));
  }
  Peer& peer = peers_[hello.rank];
  session.rank = hello.rank;
  session.incarnation = hello.incarnation;
  if (peer.session != nullptr && peer.session->incarnation != hello.incarnation) {
    // Perhaps that one is dead and we do not know it yet. Time tells: see settle_parked.
    if (peer.parked != nullptr) turn_away(*peer.parked, "the same task came again");
    session.stage = Stage::kParked;
    session.deadline.cancel();
    peer.parked = &session;
    return;
  }
  if (peer.session != nullptr) {
    if (peer.parked != nullptr) settle_parked(peer, true);  // this Hello shows that the first incarnation lives
    lose(*peer.session, "it made a new connection");
  }
  if (session.stage == Stage::kAwaitsHello) establish(session, hello.incarnation);
}

void AsioTransport::Impl::on_answer(Session& session, const wire::Message& message) {
  if (const auto* no = std::get_if<wire::Refuse>(&message)) return refused(session, *no);
  const auto* yes = std::get_if<wire::Welcome>(&message);
  if (yes != nullptr && yes->rank == session.rank) {
    peers_[session.rank].failure.clear();
    return establish(session, yes->incarnation);
  }
  const std::string what = yes != nullptr ? fmt::format("rank {} answered there", yes->rank)
                                          : "it answered with " + wire::name_of(wire::type_of(message));
  session.on_closed(what);
}

void AsioTransport::Impl::on_deadline(Session& session) {
  const std::string within = seconds(config_.timeouts.handshake);
  if (session.stage == Stage::kAwaitsHello) turn_away(session, "no handshake within " + within);
  if (session.stage == Stage::kAwaitsAnswer) session.on_closed("no answer to the handshake within " + within);
  if (session.stage == Stage::kEnding) remove(session);
}

// At most once a minute: strangers must not fill the log.
void AsioTransport::Impl::complain(const std::string& what) {
  const auto now = SteadyClock::now();
  if (complained_ && now - *complained_ < std::chrono::minutes(1)) {
    ++complaints_held_;
    return;
  }
  const std::string more =
      complaints_held_ > 0 ? fmt::format(" ({} more since the last such line)", complaints_held_) : "";
  complained_ = now;
  complaints_held_ = 0;
  log_.warning("{}{}", what, more);
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

// Counts turns of the loop rather than the clock: a task that was frozen does not accuse the others when it wakes.
void AsioTransport::Impl::tick() {
  for (Peer& peer : peers_) {
    if (peer.session == nullptr) continue;
    Session& session = *peer.session;
    const uint64_t read = session.connection->bytes_read(), written = session.connection->bytes_written();
    const bool heard = std::exchange(session.read, read) != read;
    session.silent = heard ? 0 : session.silent + period_;
    const bool said = std::exchange(session.written, written) != written;
    session.quiet = said ? 0 : session.quiet + period_;
    if (session.quiet >= config_.timeouts.heartbeat && session.connection->queued_bytes() == 0) {
      session.quiet = 0;
      session.connection->send(wire::Heartbeat{}, {});
    }
    // What a dead process had written before it died comes at once; what comes later is from a living one.
    if (peer.parked != nullptr && ++peer.parked->parked_ticks > 2 && heard) settle_parked(peer, true);
    if (session.silent >= config_.timeouts.peer) lose(session, "nothing heard for " + seconds(config_.timeouts.peer));
  }
}

void AsioTransport::Impl::settle_parked(Peer& peer, bool old_one_lives) {
  Session& newcomer = *std::exchange(peer.parked, nullptr);
  if (!old_one_lives) return establish(newcomer, newcomer.incarnation);
  newcomer.deadline.expires_after(duration(config_.timeouts.handshake));
  newcomer.deadline.async_wait([this, &newcomer](const asio::error_code& ec) {
    if (!ec) on_deadline(newcomer);
  });
  refuse(newcomer,
         refusal("incarnation", fmt::format("{} runs already", endpoint(newcomer.rank).name), "a second one"));
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
      } else if (peer.awaited) {
        log_.info("waiting for {} to connect to {}", endpoint(rank).name, to_string(endpoint(config_.self)));
      }
    }
    say_progress();
  });
}

// -- what the owner asks for --

void AsioTransport::Impl::start(Handler& handler) {
  handler_ = &handler;
  listener_->start([this](UniqueFd socket) { accept(std::move(socket)); });
  for (const Rank rank : config_.dial) begin_dialling(rank);
  keep_ticking();
  say_progress();
  if (local_.size() > 0) pump_local();
}

void AsioTransport::Impl::send(Rank to, wire::Message message, wire::Payload payload) {
  if (to == config_.self) {
    local_.push(std::move(message), std::move(payload));
    if (handler_ != nullptr) pump_local();
  } else if (to < peers_.size() && peers_[to].session != nullptr) {
    peers_[to].session->connection->send(std::move(message), std::move(payload));
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
  return connected(to) ? peers_[to].session->connection->queued_bytes() : 0;
}

void AsioTransport::Impl::disconnect(Rank rank, const std::string& reason) {
  if (rank >= peers_.size() || peers_[rank].session == nullptr) return;
  asio::post(loop_, [this, rank, number = peers_[rank].session->number, reason] {
    Session* session = peers_[rank].session;
    if (session != nullptr && session->number == number) lose(*session, reason);
  });
}

void AsioTransport::Impl::drain(Nanoseconds deadline, std::function<void()> done) {
  DTRAIN_CHECK(!draining_, "drained twice");
  draining_ = true;
  drained_ = std::move(done);
  listener_->close();
  progress_.cancel();
  tick_.cancel();
  for (Peer& peer : peers_) {
    peer.dialer.reset();
    peer.retry.reset();
    peer.session = peer.parked = nullptr;
  }
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

uint16_t AsioTransport::port() const { return impl_->port(); }
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
