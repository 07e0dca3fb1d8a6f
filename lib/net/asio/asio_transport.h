// The transport of real clusters: TCP, and Unix-domain sockets between tasks on one host.
//
// One thread, the one that calls run(), makes every call to the Handler, and owns everything but what is said to be
// thread-safe. A pair of tasks has at most one connection: the caller says whom this task dials; the others dial it.
//
// A peer that closes, sends a malformed frame or is silent for timeouts.peer is lost. Who connects must say Hello
// within timeouts.handshake, in a frame of at most 4 KiB; at most `most_strangers` connections may be at that point,
// the oldest gives way. A second incarnation of a task is refused while the first one shows life; otherwise it takes
// its place. With a secret nobody is heard who has not proven that he holds it, and nothing is said to him: see
// mutual_proof.h.
//
// Guests, who are no tasks, say Guest instead of Hello. They are few, from this host unless the configuration says
// otherwise or they hold the secret, and cut off when they send more frames than anyone who reads the answers would.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "net/endpoint.h"
#include "net/mutual_proof.h"
#include "net/timeouts.h"
#include "net/transport.h"
#include "tensor/shared_memory.h"

namespace dtrain::net {

struct AsioConfig {
  Rank self = 0;
  std::vector<Endpoint> endpoints;  // of every rank
  std::vector<Rank> dial;           // whom this task connects to
  std::vector<Rank> awaited;        // who is expected to connect to it; for the lines that say who is waited for
  wire::Hello hello;                // of this task; protocol, rank, wanted_rank and nonce are filled in
  ProofMeans proof;                 // of the run's secret; without one whoever says the right Hello is taken for a task
  // Whether another task may connect; a Refuse is its answer. Sees what a stranger sent, ranks not yet checked. Empty:
  // first_difference(hello, …).
  std::function<std::optional<wire::Refuse>(const wire::Hello&)> check;
  // Sockets bound by a parent (see bound_port.h), taken over; empty: the own endpoint is bound (port 0: any).
  std::vector<int> listen_fds;
  bool host_sockets = true;  // dial tasks on this host by Unix-domain sockets rather than TCP
  Timeouts timeouts;
  size_t most_strangers = 64;
  // Bytes of control, and of tensors, that may wait for one peer; one more loses it.
  size_t most_control = 64u << 20, most_tensors = size_t{16} << 30;
  // Memory whose tensors go to tasks on this host without being copied; null: there is none. Its buffers must not be
  // used for anything else once this transport is destroyed: another task may still be reading what was sent.
  std::shared_ptr<SharedMemory> memory;
  size_t most_guests = 8;
  bool guests_from_elsewhere = false;  // from other hosts as well
};

// Bytes of all connections so far, and those that wait to be sent.
struct Traffic {
  uint64_t sent = 0, received = 0, queued = 0;
};

class AsioTransport final : public Transport {
 public:
  // Listens when it returns, but accepts nobody before start(). Errors (kUsage): the own endpoint cannot be bound.
  static Result<std::unique_ptr<AsioTransport>> create(AsioConfig config, Log& log);
  // REQUIRES that run() has returned or was not called. Connections are closed without a word to the handler.
  ~AsioTransport() override;

  // The port that this task listens at.
  uint16_t port() const;
  // It listens at an address at which other hosts may reach it.
  bool open_to_other_hosts() const;
  Traffic traffic() const;

  // Begins to accept and to dial. `handler` outlives this object. Before run() or from the loop.
  void start(Handler& handler);
  // The loop: returns after stop(). Can be called again.
  void run();

  // Thread-safe.
  void stop();
  void post(std::function<void()> function);                      // calls it from the loop
  void after(Nanoseconds delay, std::function<void()> function);  // once

  // Takes no new connection, writes what is queued, says good-bye; calls `done` from the loop when all peers have
  // closed as well, or at the deadline. Neither messages nor losses are reported any more.
  void drain_and_close(Nanoseconds deadline, std::function<void()> done);

  void send(Rank to, wire::Message message, wire::Payload payload = {}) override;
  Rank self() const override;
  bool connected(Rank peer) const override;
  size_t queued_bytes(Rank to) const override;
  void disconnect(Rank peer, const std::string& reason) override;

 private:
  class Impl;
  explicit AsioTransport(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::net
