// What happens in a MemoryNetwork, and what lies between two of its tasks. Private to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto-free-wire/message.h"

namespace dtrain::net {

using wire::Rank;

enum class EventKind {
  kMessage,
  kLocal,
  kConnect,
  kLost,
  kRetry,
  kFrozenTooLong,
  kBlockedTooLong,
  kUnblock,
  kFunction
};

// Ordered by time, then by when it was scheduled. An event that has to wait (its task is frozen, its link blocked) is
// put back with its old number, so that the order of what waited stays.
struct Event {
  Instant at = 0;
  uint64_t number = 0;
  EventKind kind{};
  Rank from = 0, to = 0;  // `to` is whom it happens to
  uint64_t stamp = 0;     // connection, life, freeze or block that it belongs to; of another one it is void
  size_t slot = 0;        // of a message's contents or a function
  std::string reason = {};

  bool operator>(const Event& other) const { return std::pair(at, number) > std::pair(other.at, other.number); }
};

struct Flight {
  wire::Message message;
  wire::Payload payload;
  uint32_t crc = 0;
};

// What one side of a link sends to the other.
struct Direction {
  bool blocked = false;
  bool random = false;                        // blocked by the seed rather than by the caller
  uint64_t block = 0;                         // counts blocks
  Instant last_control = 0, last_tensor = 0;  // arrivals so far
  size_t bytes = 0;
  std::vector<Event> waiting;
};

// One side's belief about a connection; it outlives a cut until the side has learnt of it.
struct Belief {
  uint64_t connection = 0;
  bool told = false;  // on_connected has been called
};

struct Link {
  uint64_t connection = 0;  // counts connections
  bool up = false;
  std::map<Rank, Belief> seen;
  std::map<Rank, Direction> from;
};

}  // namespace dtrain::net
