#include "net/memory/memory_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/philox.h"
#include "net/local_queue.h"
#include "net/memory/link.h"

namespace dtrain::net {
class MemoryNetwork::Node final : public Transport {
 public:
  Node(Impl& network, Rank rank) : network_(network), rank_(rank) {}

  void send(Rank to, wire::Message message, wire::Payload payload) override;
  Rank self() const override { return rank_; }
  bool connected(Rank peer) const override;
  size_t queued_bytes(Rank to) const override;
  void disconnect(Rank peer, const std::string& reason) override;

  Impl& network_;
  Rank rank_;
  Handler* handler = nullptr;  // null: dead
  uint64_t life = 0, incarnation = 0;
  bool frozen = false;
  uint64_t freeze = 0;
  LocalQueue local;
  std::vector<Event> waiting;  // while frozen
};

struct MemoryNetwork::Impl {
  Impl(size_t ranks, ManualClock& clock_in, const MemoryNetworkOptions& options_in)
      : clock(clock_in), options(options_in), random(options.seed, stream_id("memory_network"), 0, 0) {
    for (Rank r = 0; r < ranks; ++r) nodes.push_back(std::make_unique<Node>(*this, r));
    if (options.cut_mean > 0) next_cut = clock.now() + around(options.cut_mean);
    if (options.block_mean > 0) next_block = clock.now() + around(options.block_mean);
  }

  // -- drawing --
  uint64_t draw() {
    const uint64_t high = random.at(drawn++);
    return high << 32 | random.at(drawn++);
  }
  Nanoseconds between(Nanoseconds least, Nanoseconds most) {
    if (most <= least) return least;
    return least + static_cast<Nanoseconds>(draw() % static_cast<uint64_t>(most - least + 1));
  }
  Nanoseconds around(Nanoseconds mean) { return between(1, 2 * mean); }
  Nanoseconds delay() { return between(options.delay_least, options.delay_most); }

  // -- finding --
  Link* find(Rank a, Rank b) {
    const auto found = links.find(std::minmax(a, b));
    return found == links.end() ? nullptr : &found->second;
  }
  Node& node(Rank rank) {
    DTRAIN_CHECK(rank < nodes.size(), "rank {} of {}", rank, nodes.size());
    return *nodes[rank];
  }

  void schedule(Event event) {
    event.number = numbered++;
    events.push(std::move(event));
  }
  size_t take_slot(Flight flight) {
    if (free_slots.empty()) {
      flights.push_back(std::move(flight));
      return flights.size() - 1;
    }
    const size_t slot = free_slots.back();
    free_slots.pop_back();
    flights[slot] = std::move(flight);
    return slot;
  }
  Flight release_slot(size_t slot) {
    free_slots.push_back(slot);
    return std::exchange(flights[slot], Flight{});
  }

  // -- connections --
  void try_connect(Rank a, Rank b) {
    Link* link = find(a, b);
    if (link == nullptr || link->up || !link->seen.empty()) return;
    for (const Rank r : {a, b}) {
      if (node(r).handler == nullptr || node(r).frozen || link->from[r].blocked) return;
    }
    link->up = true;
    ++link->connection;
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const Instant at = clock.now() + delay();
      // Nothing arrives at `to` before it knows the connection.
      link->from[from].last_control = link->from[from].last_tensor = at;
      link->from[from].bytes = 0;
      link->seen[to] = {link->connection, false};
      schedule({.at = at, .kind = EventKind::kConnect, .from = from, .to = to, .stamp = link->connection});
    }
  }

  void cut(Rank a, Rank b, const std::string& reason_of_a, const std::string& reason_of_b) {
    Link* link = find(a, b);
    if (link == nullptr || !link->up) return;
    link->up = false;
    ++tally.cuts;
    lose(*link, b, a, reason_of_a);
    lose(*link, a, b, reason_of_b);
  }
  // What the side that `event` happens to believes of the event's connection; end() where it has another one or none.
  static std::map<Rank, Belief>::iterator believed(Link& link, const Event& event) {
    const auto seen = link.seen.find(event.to);
    return seen != link.seen.end() && seen->second.connection == event.stamp ? seen : link.seen.end();
  }
  void lose(Link& link, Rank from, Rank to, const std::string& reason) {
    const auto seen = link.seen.find(to);
    if (seen == link.seen.end()) return;
    schedule({.at = clock.now() + delay(),
              .kind = EventKind::kLost,
              .from = from,
              .to = to,
              .stamp = seen->second.connection,
              .reason = reason});
  }
  void retry_later(Rank a, Rank b) {
    schedule({.at = clock.now() + options.retry + delay(), .kind = EventKind::kRetry, .from = a, .to = b});
  }
  void set_blocked(Rank from, Rank to, bool random_one) {
    Link* link = find(from, to);
    DTRAIN_CHECK(link != nullptr, "no link between {} and {}", from, to);
    Direction& direction = link->from[from];
    if (direction.blocked) return;
    direction.blocked = true;
    direction.random = random_one;
    ++direction.block;
    ++tally.blocks;
    schedule({.at = clock.now() + options.peer_timeout,
              .kind = EventKind::kBlockedTooLong,
              .from = from,
              .to = to,
              .stamp = direction.block});
  }
  void set_unblocked(Rank from, Rank to) {
    Link* link = find(from, to);
    if (link == nullptr || !link->from[from].blocked) return;
    link->from[from].blocked = false;
    put_back(link->from[from].waiting);
    try_connect(from, to);
  }
  void put_back(std::vector<Event>& waiting) {
    for (Event& event : waiting) {
      event.at = clock.now();
      events.push(std::move(event));
    }
    waiting.clear();
  }

  void send(Rank from, Rank to, wire::Message message, wire::Payload payload);
  void happen(Event event);
  void deliver(const Event& event);
  void random_fault();

  ManualClock& clock;
  const MemoryNetworkOptions options;
  Philox random;
  uint64_t drawn = 0, numbered = 0;
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<std::pair<Rank, Rank>, Link> links;  // smaller rank first
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<Flight> flights;
  std::vector<size_t> free_slots;
  std::map<uint64_t, std::function<void()>> functions;
  std::optional<Instant> next_cut, next_block;
  Counts tally;
};

// -- a message's way --

void MemoryNetwork::Impl::send(Rank from, Rank to, wire::Message message, wire::Payload payload) {
  Node& sender = node(from);
  if (sender.handler == nullptr) return;  // a dead task's last words
  if (from == to) {
    sender.local.push(std::move(message), std::move(payload));
    schedule({.at = clock.now(), .kind = EventKind::kLocal, .from = from, .to = to, .stamp = sender.life});
    return;
  }
  Link* link = find(from, to);
  if (link == nullptr || !link->up || !sender.connected(to)) {
    ++tally.dropped;
    return;
  }
  Direction& direction = link->from[from];
  const bool tensor = !payload.bytes.empty();
  Instant at = std::max(clock.now() + delay(), direction.last_control);
  if (tensor) {
    at = direction.last_tensor = std::max(at, direction.last_tensor);
  } else {
    direction.last_control = at;
    if (at < direction.last_tensor) ++tally.overtaken;
  }
  direction.bytes += payload.bytes.size();
  Flight flight{std::move(message), std::move(payload), 0};
  if (tensor && options.check_payloads) flight.crc = crc32c(flight.payload.bytes);
  schedule({.at = at,
            .kind = EventKind::kMessage,
            .from = from,
            .to = to,
            .stamp = link->connection,
            .slot = take_slot(std::move(flight))});
}

void MemoryNetwork::Impl::deliver(const Event& event) {
  const Flight flight = release_slot(event.slot);
  Link& link = *find(event.from, event.to);
  if (!link.up || link.connection != event.stamp) {
    ++tally.dropped;
    return;
  }
  link.from[event.from].bytes -= flight.payload.bytes.size();
  if (options.check_payloads && !flight.payload.bytes.empty()) {
    DTRAIN_CHECK(crc32c(flight.payload.bytes) == flight.crc, "rank {} changed a payload that was under way to {}",
                 event.from, event.to);
  }
  ++tally.delivered;
  node(event.to).handler->on_message(event.from, flight.message, flight.payload.bytes);
}

void MemoryNetwork::Impl::happen(Event event) {
  const bool to_a_task = event.kind == EventKind::kMessage || event.kind == EventKind::kLocal ||
                         event.kind == EventKind::kConnect || event.kind == EventKind::kLost;
  if (to_a_task && node(event.to).frozen) {
    node(event.to).waiting.push_back(std::move(event));
    return;
  }
  Link* link = event.from == event.to ? nullptr : find(event.from, event.to);
  switch (event.kind) {
    case EventKind::kMessage:
      if (link->up && link->connection == event.stamp && link->from[event.from].blocked) {
        link->from[event.from].waiting.push_back(std::move(event));
      } else {
        deliver(event);
      }
      break;
    case EventKind::kLocal: {
      Node& self = node(event.to);
      if (self.handler != nullptr && self.life == event.stamp) self.local.deliver_one(self.rank_, *self.handler);
      break;
    }
    case EventKind::kConnect:
      if (const auto seen = believed(*link, event); seen != link->seen.end() && link->up) {
        seen->second.told = true;
        node(event.to).handler->on_connected(event.from, node(event.from).incarnation);
      }
      break;
    case EventKind::kLost:
      if (const auto seen = believed(*link, event); seen != link->seen.end()) {
        const bool told = seen->second.told;
        link->seen.erase(seen);
        if (told) node(event.to).handler->on_lost(event.from, event.reason);
        retry_later(event.from, event.to);
      }
      break;
    case EventKind::kRetry:
      try_connect(event.from, event.to);
      break;
    case EventKind::kFrozenTooLong:
      if (node(event.to).frozen && node(event.to).freeze == event.stamp) {
        for (const auto& [pair, l] : links) {
          if (pair.first != event.to && pair.second != event.to) continue;
          const Rank peer = pair.first == event.to ? pair.second : pair.first;
          cut(event.to, peer, "closed by the other side", "silent for too long");
        }
      }
      break;
    case EventKind::kBlockedTooLong:
      if (link->from[event.from].blocked && link->from[event.from].block == event.stamp) {
        cut(event.from, event.to, "closed by the other side", "silent for too long");
      }
      break;
    case EventKind::kUnblock:
      if (link->from[event.from].block == event.stamp) set_unblocked(event.from, event.to);
      break;
    case EventKind::kFunction: {
      const auto found = functions.find(event.slot);
      const std::function<void()> function = std::move(found->second);
      functions.erase(found);
      function();
      break;
    }
  }
}

void MemoryNetwork::Impl::random_fault() {
  const bool is_cut = !next_block || (next_cut && *next_cut <= *next_block);
  clock.set(std::max(clock.now(), is_cut ? *next_cut : *next_block));
  std::vector<std::pair<Rank, Rank>> pairs;
  for (const auto& [pair, link] : links) {
    if (link.up) pairs.push_back(pair);
  }
  if (is_cut) next_cut = clock.now() + around(options.cut_mean);
  if (!is_cut) next_block = clock.now() + around(options.block_mean);
  if (pairs.empty()) return;
  const auto [a, b] = pairs[draw() % pairs.size()];
  if (is_cut) {
    cut(a, b, "cut", "cut");
    return;
  }
  const bool forward = draw() % 2 == 0;
  const Rank from = forward ? a : b, to = forward ? b : a;
  if (find(a, b)->from[from].blocked) return;
  set_blocked(from, to, true);
  schedule({.at = clock.now() + between(0, 2 * options.peer_timeout),
            .kind = EventKind::kUnblock,
            .from = from,
            .to = to,
            .stamp = find(a, b)->from[from].block});
}

// -- a task's transport --

void MemoryNetwork::Node::send(Rank to, wire::Message message, wire::Payload payload) {
  network_.send(rank_, to, std::move(message), std::move(payload));
}

bool MemoryNetwork::Node::connected(Rank peer) const {
  if (peer == rank_) return true;
  const Link* link = network_.find(rank_, peer);
  if (link == nullptr) return false;
  const auto seen = link->seen.find(rank_);
  return seen != link->seen.end() && seen->second.told;
}

size_t MemoryNetwork::Node::queued_bytes(Rank to) const {
  if (to == rank_) return local.bytes();
  Link* link = network_.find(rank_, to);
  return link == nullptr || !link->up ? 0 : link->from[rank_].bytes;
}

void MemoryNetwork::Node::disconnect(Rank peer, const std::string& reason) {
  network_.cut(rank_, peer, reason, "closed by the other side");
}

// -- the network --

MemoryNetwork::MemoryNetwork(size_t ranks, ManualClock& clock, const MemoryNetworkOptions& options)
    : impl_(std::make_unique<Impl>(ranks, clock, options)) {}
MemoryNetwork::~MemoryNetwork() = default;

void MemoryNetwork::link(Rank a, Rank b) {
  DTRAIN_CHECK(a != b && a < impl_->nodes.size() && b < impl_->nodes.size());
  impl_->links[std::minmax(a, b)];
  impl_->try_connect(a, b);
}

void MemoryNetwork::link_all() {
  for (Rank b = 1; b < impl_->nodes.size(); ++b) {
    for (Rank a = 0; a < b; ++a) link(a, b);
  }
}

Transport& MemoryNetwork::transport(Rank rank) { return impl_->node(rank); }

void MemoryNetwork::start(Rank rank, Handler& handler, uint64_t incarnation) {
  Node& node = impl_->node(rank);
  DTRAIN_CHECK(node.handler == nullptr, "rank {} lives already", rank);
  node.handler = &handler;
  node.incarnation = incarnation;
  ++node.life;
  for (const auto& [pair, link] : impl_->links) {
    if (pair.first == rank || pair.second == rank) impl_->try_connect(pair.first, pair.second);
  }
}

void MemoryNetwork::kill(Rank rank) {
  Node& node = impl_->node(rank);
  if (node.handler == nullptr) return;
  ++impl_->tally.kills;
  node.handler = nullptr;
  node.frozen = false;
  node.local = LocalQueue();
  for (const Event& event : node.waiting) {
    if (event.kind == EventKind::kMessage) impl_->release_slot(event.slot);
  }
  node.waiting.clear();
  for (auto& [pair, link] : impl_->links) {
    if (pair.first != rank && pair.second != rank) continue;
    const Rank peer = pair.first == rank ? pair.second : pair.first;
    link.seen.erase(rank);
    impl_->cut(rank, peer, "", "connection reset");
    impl_->retry_later(rank, peer);
  }
}

bool MemoryNetwork::alive(Rank rank) const { return impl_->node(rank).handler != nullptr; }

void MemoryNetwork::freeze(Rank rank) {
  Node& node = impl_->node(rank);
  if (node.frozen || node.handler == nullptr) return;
  node.frozen = true;
  ++node.freeze;
  impl_->schedule({.at = impl_->clock.now() + impl_->options.peer_timeout,
                   .kind = EventKind::kFrozenTooLong,
                   .from = rank,
                   .to = rank,
                   .stamp = node.freeze});
}

void MemoryNetwork::thaw(Rank rank) {
  Node& node = impl_->node(rank);
  if (!node.frozen) return;
  node.frozen = false;
  impl_->put_back(node.waiting);
  for (const auto& [pair, link] : impl_->links) {
    if (pair.first == rank || pair.second == rank) impl_->retry_later(pair.first, pair.second);
  }
}

void MemoryNetwork::cut(Rank a, Rank b) { impl_->cut(a, b, "cut", "cut"); }
void MemoryNetwork::block(Rank from, Rank to) { impl_->set_blocked(from, to, false); }
void MemoryNetwork::unblock(Rank from, Rank to) { impl_->set_unblocked(from, to); }

void MemoryNetwork::end_faults() {
  impl_->next_cut.reset();
  impl_->next_block.reset();
  for (auto& [pair, link] : impl_->links) {
    for (const auto& [from, to] : {pair, std::pair(pair.second, pair.first)}) {
      if (link.from[from].blocked && link.from[from].random) impl_->set_unblocked(from, to);
    }
  }
}

void MemoryNetwork::at(Instant when, std::function<void()> function) {
  const size_t slot = impl_->numbered;
  impl_->functions[slot] = std::move(function);
  impl_->schedule({.at = std::max(when, impl_->clock.now()), .kind = EventKind::kFunction, .slot = slot});
}

std::optional<Instant> MemoryNetwork::next_time() const {
  if (impl_->events.empty()) return std::nullopt;
  return std::max(impl_->events.top().at, impl_->clock.now());
}

bool MemoryNetwork::step() {
  const std::optional<Instant> next = next_time();
  if (!next) return false;
  if ((impl_->next_cut && *impl_->next_cut <= *next) || (impl_->next_block && *impl_->next_block <= *next)) {
    impl_->random_fault();
    return true;
  }
  Event event = impl_->events.top();
  impl_->events.pop();
  impl_->clock.set(*next);
  impl_->happen(std::move(event));
  return true;
}

void MemoryNetwork::run_until(Instant when) {
  while (next_time() && *next_time() <= when) step();
  impl_->clock.set(std::max(when, impl_->clock.now()));
}

const MemoryNetwork::Counts& MemoryNetwork::counts() const { return impl_->tally; }

}  // namespace dtrain::net
