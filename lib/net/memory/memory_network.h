// A network of tasks inside one process and one thread, under a clock that it advances itself: for tests and for the
// simulator. Everything that happens is a function of the options (the seed) and of the order of the calls.
//
// Modelled: connections that take a while, messages that take a while (in order on each connection, but that those
// without payload may overtake those with one), connections that are cut with whatever is on them, tasks that die, come
// back or freeze, links that are blocked in one direction. Silence for peer_timeout ends a connection. Not modelled:
// the bytes of frames and the contents of the handshake. Payloads pass by pointer; one that changes between send and
// delivery is a bug of the sender, and is checked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "net/transport.h"

namespace dtrain::net {

struct MemoryNetworkOptions {
  uint64_t seed = 0;
  // A message, a connection or the news of a loss takes so long, drawn for each.
  Nanoseconds delay_least = 50 * kMicrosecond;
  Nanoseconds delay_most = 50 * kMicrosecond;
  // Mean time between two cuts of a random connection, and between two blocks of a random direction of a random link
  // (for up to twice peer_timeout); 0: never.
  Nanoseconds cut_mean = 0;
  Nanoseconds block_mean = 0;
  Nanoseconds retry = 20 * kMillisecond;  // least time from a loss to the next connection
  Nanoseconds peer_timeout = 10 * kSecond;
  bool check_payloads = true;
};

class MemoryNetwork {
 public:
  // `clock` is advanced by step(); it must outlive the network.
  MemoryNetwork(size_t ranks, ManualClock& clock, const MemoryNetworkOptions& options);
  ~MemoryNetwork();

  // A and b want to be connected whenever both live.
  void link(Rank a, Rank b);
  void link_all();

  // Rank's transport; the same object for all its lives.
  Transport& transport(Rank rank);

  // -- lives --
  // The task lives, and is connected to its links that live. REQUIRES that it does not live already.
  void start(Rank rank, Handler& handler, uint64_t incarnation);
  // It is gone: its handler is not called any more, nothing on the way to or from it arrives, its peers learn it soon.
  void kill(Rank rank);
  bool alive(Rank rank) const;
  // Nothing reaches it until it is thawed; after peer_timeout its peers take it for lost.
  void freeze(Rank rank);
  void thaw(Rank rank);

  // -- faults --
  void cut(Rank a, Rank b);
  // What `from` sends to `to` waits; after peer_timeout `to` takes `from` for lost and no connection can be made.
  void block(Rank from, Rank to);
  void unblock(Rank from, Rank to);
  // No more random faults from now on; blocks that these have made are removed.
  void end_faults();

  // -- time --
  // Calls `function` at this time of the clock, or now if that is past; among equals in the order of the calls.
  void at(Instant when, std::function<void()> function);
  // When the next thing happens; random faults do not count.
  std::optional<Instant> next_time() const;
  // Advances the clock to the next thing and lets it happen; false where nothing is left.
  bool step();
  // All that happens until `when`, to which the clock is set at the end.
  void run_until(Instant when);

  struct Counts {
    uint64_t delivered = 0, dropped = 0, overtaken = 0, cuts = 0, blocks = 0, kills = 0;
  };
  const Counts& counts() const;

 private:
  class Node;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::net
