#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <utility>

#include "net/asio/asio_transport_impl.h"
#include "net/asio/durations.h"
#include "net/asio/socket_address.h"
#include "net/handshake.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {
namespace {

// Of a guest between two ticks; far more than one needs.
constexpr size_t kMostFramesOfGuest = 5000;

// Addresses of which the log tells that somebody there has no secret, or another one; of further ones it tells as of
// any stranger.
constexpr size_t kMostComplainedOf = 64;
constexpr const char* kOnBoth = "give the same --secret_file to both";

wire::Refuse refusal(const char* field, std::string ours, std::string theirs) {
  return {static_cast<uint8_t>(ExitCode::kUsage), field, std::move(ours), std::move(theirs)};
}

wire::Refuse distrust(const char* field, std::string ours, std::string theirs) {
  return {static_cast<uint8_t>(ExitCode::kAuthentication), field, std::move(ours), std::move(theirs)};
}

bool of_handshake(wire::MessageType type) {
  using T = wire::MessageType;
  return type == T::kHello || type == T::kGuest || type == T::kChallenge || type == T::kProof || type == T::kWelcome ||
         type == T::kRefuse;
}

// Of "10.0.0.1:2500".
std::string without_port(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

void AsioTransport::Impl::Session::on_frame(const wire::Message& message, ByteSpan payload) {
  const wire::MessageType type = wire::type_of(message);
  if (stage == Stage::kEstablished && wire::is_guest(rank) && ++frames > kMostFramesOfGuest)
    return transport.lose(*this, "it sends too much");
  if (stage == Stage::kEstablished && !of_handshake(type)) {
    if (type != wire::MessageType::kHeartbeat) transport.handler_->on_message(rank, message, payload);
  } else if (stage == Stage::kEstablished) {
    transport.lose(*this, "it sent " + wire::name_of(type) + " after the handshake");
  } else if (stage == Stage::kAwaitsHello && (type == wire::MessageType::kHello || type == wire::MessageType::kGuest)) {
    transport.on_greeting(*this, message);
  } else if (stage == Stage::kAwaitsProof && type == wire::MessageType::kProof) {
    transport.on_proof(*this, std::get<wire::Proof>(message));
  } else if (stage == Stage::kAwaitsAnswer && own_proof && !own_proof->proven()) {
    transport.on_challenge(*this, message);
  } else if (stage == Stage::kAwaitsAnswer) {
    transport.on_answer(*this, message);
  } else {
    transport.turn_away(*this, "it sent " + wire::name_of(type) + " in the handshake");
  }
}

void AsioTransport::Impl::Session::on_foreign_version(uint16_t version) {
  const wire::Refuse difference = refusal("protocol", std::to_string(wire::kProtocolVersion), std::to_string(version));
  if (stage == Stage::kAwaitsHello) return transport.refuse(*this, difference);
  if (stage != Stage::kAwaitsAnswer) return on_closed("it speaks another version of the protocol");
  transport.refused(*this, refusal("protocol", difference.theirs, difference.ours));
}

void AsioTransport::Impl::Session::on_closed(const std::string& reason) {
  switch (stage) {
    case Stage::kEstablished:
      return transport.lose(*this, reason);
    case Stage::kAwaitsHello:
    case Stage::kAwaitsProof:
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
      loop_, endpoint(rank), config_.timeouts.handshake, config_.host_sockets, [this, rank](Result<UniqueFd> socket) {
        const bool refused = !socket && peers_[rank].dialer->refused();
        peers_[rank].dialer.reset();
        if (!socket) return dial_failed(rank, socket.error().message, refused);
        Session& session = open(std::move(*socket), Stage::kAwaitsAnswer, rank);
        wire::Hello hello = config_.hello;
        hello.wanted_rank = rank;
        if (config_.proof.secret) {
          hello.nonce = config_.proof.nonce();
          session.own_proof.emplace(config_.proof.secret, hello, rank);
        }
        session.connection->send(hello, {});
      });
}

void AsioTransport::Impl::dial_failed(Rank rank, const std::string& why, bool refused) {
  Peer& peer = peers_[rank];
  if (draining_) return;
  peer.failure = why;
  const auto now = SteadyClock::now();
  const auto waited = now - peer.dialled_since;
  if (!refused) peer.refused_since.reset();
  if (refused && !peer.refused_since) peer.refused_since = now;
  const bool nobody = refused && now - *peer.refused_since >= duration(config_.timeouts.refused);
  if (nobody || waited >= duration(config_.timeouts.start)) {
    peer.given_up = true;
    const std::string reason =
        fmt::format("{} at {} could not be reached within {}: {}", endpoint(rank).name, to_string(endpoint(rank)),
                    seconds(nobody ? config_.timeouts.refused : config_.timeouts.start), why);
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
  session.connection =
      Connection::make(loop_, std::move(socket), {config_.most_control, config_.most_tensors}, config_.memory, session);
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
  const bool here = from_this_host(socket.get());
  strangers_.push_back(&open(std::move(socket), Stage::kAwaitsHello, config_.self));
  strangers_.back()->from_here = here;
}

void AsioTransport::Impl::establish(Session& session, uint64_t incarnation) {
  if (session.stage != Stage::kAwaitsAnswer)
    session.connection->send(wire::Welcome{config_.self, config_.hello.incarnation}, {});
  session.stage = Stage::kEstablished;
  session.incarnation = incarnation;
  session.deadline.cancel();
  session.connection->trust(true);
  strangers_.remove(&session);
  peers_[session.rank].session = &session;
  peers_[session.rank].met = true;
  handler_->on_connected(session.rank, incarnation);
}

// The session may be on the stack: it lives until the loop's next turn.
void AsioTransport::Impl::remove(Session& session) {
  if (session.stage == Stage::kDead) return;
  session.stage = Stage::kDead;
  ended_traffic_.sent += session.connection->bytes_written();
  ended_traffic_.received += session.connection->bytes_read();
  session.connection->close();
  session.deadline.cancel();
  strangers_.remove(&session);
  guests_.erase(session.rank);
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
  if (wire::is_guest(rank)) return;
  Peer& peer = peers_[rank];
  if (peer.parked != nullptr && peer.session == nullptr) settle_parked(peer, false);
  if (!peer.dial || peer.session != nullptr || peer.given_up) return;
  peer.dialled_since = SteadyClock::now();
  peer.backoff = config_.timeouts.retry_first;
  dial_failed(rank, fmt::format("{} ({})", to_string(endpoint(rank)), reason));
}

// Of a stranger nothing is told to anybody but, now and then, the log.
void AsioTransport::Impl::turn_away(Session& session, const std::string& reason) {
  const std::string& peer = session.connection->peer();
  if (session.stage == Stage::kAwaitsProof) {
    complain_of_address(session,
                        fmt::format("closed a connection from {}: it has not proven that it holds the secret of "
                                    "this task ({}); {}",
                                    peer, reason, kOnBoth));
  } else {
    complain(fmt::format("closed a connection from {}: {}", peer, reason));
  }
  remove(session);
}

void AsioTransport::Impl::refuse(Session& session, const wire::Refuse& refuse) {
  complain(fmt::format("refused a task at {}: {} differs: {} here, {} there", session.connection->peer(), refuse.field,
                       printable(refuse.ours), printable(refuse.theirs)));
  answer_and_close(session, refuse);
}

void AsioTransport::Impl::answer_and_close(Session& session, wire::Refuse answer) {
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
  handler_->on_refused(by, refuse);
}

// The first word of who connects. With a secret on both sides proofs come before its words are looked at.
void AsioTransport::Impl::on_greeting(Session& session, const wire::Message& greeting) {
  const auto* hello = std::get_if<wire::Hello>(&greeting);
  const bool has_one = config_.proof.secret != nullptr;
  const bool claims_one = (hello != nullptr ? hello->nonce : std::get<wire::Guest>(greeting).nonce) != Digest{};
  if (has_one && claims_one) {
    session.their_proof.emplace(config_.proof, greeting, config_.self);
    session.stage = Stage::kAwaitsProof;
    return session.connection->send(session.their_proof->challenge(), {});
  }
  if (has_one == claims_one || (has_one && hello == nullptr)) return admit(session, greeting, false);
  const std::string who = hello != nullptr ? "task" : "guest";
  complain_of_address(
      session, fmt::format("refused a {} at {}: it has {} secret, this task has {}; {}", who,
                           session.connection->peer(), claims_one ? "a" : "no", claims_one ? "none" : "one", kOnBoth));
  if (has_one) return answer_and_close(session, distrust("", "", ""));
  answer_and_close(session, hello != nullptr ? distrust("secret", "none", "one")
                                             : distrust("guest", "has no secret: leave --secret_file out", ""));
}

void AsioTransport::Impl::on_proof(Session& session, const wire::Proof& proof) {
  if (session.their_proof->holds(proof)) return admit(session, session.their_proof->greeting(), true);
  complain_of_address(session, fmt::format("refused a connection from {}: it holds another secret than this task; {}",
                                           session.connection->peer(), kOnBoth));
  answer_and_close(session, distrust("", "", ""));
}

void AsioTransport::Impl::admit(Session& session, const wire::Message& greeting, bool proven) {
  if (const auto* hello = std::get_if<wire::Hello>(&greeting)) return on_hello(session, *hello);
  on_guest(session, proven);
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
  if (session.stage != Stage::kDead) establish(session, hello.incarnation);
}

void AsioTransport::Impl::on_guest(Session& session, bool proven) {
  const bool welcome = proven || session.from_here || config_.guests_from_elsewhere;
  if (!welcome || guests_.size() >= config_.most_guests) {
    const std::string ours =
        welcome ? fmt::format("has {} guests, which is all there may be", guests_.size())
                : fmt::format("takes guests from its own host only; {} lets in others",
                              config_.proof.secret ? "the --secret_file of the run" : "--allow_guests of its task");
    complain(fmt::format("refused a guest at {}: this task {}", session.connection->peer(), ours));
    return answer_and_close(session, distrust("guest", ours, ""));
  }
  session.rank = next_guest_++;
  session.stage = Stage::kEstablished;
  session.deadline.cancel();
  session.connection->send(wire::Welcome{config_.self, config_.hello.incarnation}, {});
  session.connection->trust(false);
  strangers_.remove(&session);
  guests_[session.rank] = &session;
  handler_->on_connected(session.rank, session.number);
}

// Of one that was dialled, and has proven nothing yet: all that it can say is a Challenge.
void AsioTransport::Impl::on_challenge(Session& session, const wire::Message& message) {
  if (const auto* challenge = std::get_if<wire::Challenge>(&message)) {
    const std::optional<wire::Proof> proof = session.own_proof->answer(*challenge);
    if (proof) return session.connection->send(*proof, {});
    const std::optional<Rank> another = session.own_proof->another_rank();
    return refused(session, another ? refusal("wanted_rank", std::to_string(*another), std::to_string(session.rank))
                                    : distrust("secret", "another", "one"));
  }
  if (std::holds_alternative<wire::Welcome>(message) || std::holds_alternative<wire::Refuse>(message))
    return refused(session, distrust("secret", "none", "one"));
  session.on_closed("it answered with " + wire::name_of(wire::type_of(message)));
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
  if (session.stage == Stage::kAwaitsHello || session.stage == Stage::kAwaitsProof)
    turn_away(session, "no handshake within " + within);
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

// Once: who has another secret comes again and again, and is told nothing.
void AsioTransport::Impl::complain_of_address(const Session& session, const std::string& what) {
  const std::string address = without_port(session.connection->peer());
  if (complained_of_.contains(address)) return;
  if (complained_of_.size() >= kMostComplainedOf) return complain(what);
  complained_of_.insert(address);
  log_.warning("{}", what);
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

}  // namespace dtrain::net
