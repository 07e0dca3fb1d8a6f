// The inside of AsioTransport: peers, connections and the stages of their lives. session.cc has what happens to one
// connection, asio_transport.cc what happens to all of them. Private to these two.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/asio/asio_transport.h"
#include "net/asio/connection.h"
#include "net/asio/dialer.h"
#include "net/asio/listener.h"
#include "net/local_queue.h"
#include "net/mutual_proof.h"

namespace dtrain::net {

using SteadyClock = std::chrono::steady_clock;

enum class Stage {
  kAwaitsHello,   // accepted
  kAwaitsProof,   // accepted, its Hello was answered with a Challenge
  kAwaitsAnswer,  // dialled, Hello sent
  kParked,        // its Hello is good, but another incarnation of the task is connected, perhaps dead
  kEstablished,
  kEnding,  // nothing more is sent; waits for the other side to close
  kDead,
};

class AsioTransport::Impl {
 public:
  Impl(AsioConfig config, Log& log);
  Status listen();
  void start(Handler& handler);
  void drain(Nanoseconds deadline, std::function<void()> done);
  void send(Rank to, wire::Message message, wire::Payload payload);
  void disconnect(Rank peer, const std::string& reason);
  bool connected(Rank rank) const { return rank == config_.self || session_of(rank) != nullptr; }
  size_t queued_bytes(Rank to) const;

  asio::io_context& loop() { return loop_; }
  Rank self() const { return config_.self; }
  uint16_t port() const { return port_; }
  bool open_to_other_hosts() const { return open_to_other_hosts_; }
  Traffic traffic() const;

 private:
  struct Session;
  struct Peer {
    bool dial = false, awaited = false;
    Session* session = nullptr;  // established
    bool met = false;            // was established once
    Session* parked = nullptr;
    std::unique_ptr<Dialer> dialer;
    std::unique_ptr<asio::steady_timer> retry;
    Nanoseconds backoff = 0;
    SteadyClock::time_point dialled_since;
    std::optional<SteadyClock::time_point> refused_since;
    std::string failure;  // of the last attempt
    bool given_up = false;
  };

  const Endpoint& endpoint(Rank rank) const { return config_.endpoints[rank]; }
  // Of a task or a guest; null where it is not connected.
  Session* session_of(Rank rank) const {
    if (rank < peers_.size()) return peers_[rank].session;
    const auto guest = guests_.find(rank);
    return guest != guests_.end() ? guest->second : nullptr;
  }

  // dialling
  void begin_dialling(Rank rank);
  void dial(Rank rank);
  void dial_failed(Rank rank, const std::string& why, bool refused = false);
  // sessions
  Session& open(UniqueFd socket, Stage stage, Rank rank);
  void accept(UniqueFd socket);
  void establish(Session& session, uint64_t incarnation);
  void remove(Session& session);
  void lose(Session& session, const std::string& reason);
  void turn_away(Session& session, const std::string& reason);
  void refuse(Session& session, const wire::Refuse& refuse);
  void answer_and_close(Session& session, wire::Refuse answer);
  void refused(Session& session, const wire::Refuse& refuse);
  void on_greeting(Session& session, const wire::Message& greeting);
  void on_proof(Session& session, const wire::Proof& proof);
  void admit(Session& session, const wire::Message& greeting, bool proven);
  void on_hello(Session& session, const wire::Hello& hello);
  void on_guest(Session& session, bool proven);
  void on_challenge(Session& session, const wire::Message& message);
  void on_answer(Session& session, const wire::Message& message);
  void on_deadline(Session& session);
  void complain(const std::string& what);
  void complain_of_address(const Session& session, const std::string& what);
  // time
  void tick();
  bool look_after(Session& session);
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
  bool open_to_other_hosts_ = false;
  Handler* handler_ = nullptr;
  std::unique_ptr<Listener> listener_;
  std::vector<Peer> peers_;
  std::map<Rank, Session*> guests_;
  Rank next_guest_ = wire::kFirstGuest;
  Traffic ended_traffic_;  // of connections that are no more
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
  std::set<std::string> complained_of_;  // addresses
};

// A connection and where it stands in its life.
struct AsioTransport::Impl::Session final : Connection::Owner {
  Session(Impl& transport_in, Stage stage_in, Rank rank_in, uint64_t number_in)
      : transport(transport_in), stage(stage_in), rank(rank_in), number(number_in), deadline(transport_in.loop_) {}

  void on_frame(const wire::Message& message, ByteSpan payload) override;
  void on_foreign_version(uint16_t version) override;
  void on_closed(const std::string& reason) override;

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
  std::optional<DiallerProof> own_proof;     // of one that was dialled, where this task has a secret
  std::optional<AcceptorProof> their_proof;  // of one that was accepted, from its Hello on
  bool from_here = false;                    // the other side is on this host
  size_t frames = 0;                         // of a guest, since the last tick
};

}  // namespace dtrain::net
