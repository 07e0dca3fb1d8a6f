// What a transport tells the task that uses it. Every call comes from the transport's one loop thread, never from
// inside a call to the transport.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "proto-free-wire/message.h"

namespace dtrain::net {

using wire::Rank;

class Handler {
 public:
  virtual ~Handler() = default;

  // The handshake with `peer` is done: messages pass in both directions. `incarnation` is the peer's; a rank that comes
  // back with another one has forgotten everything. Never called for the own rank, which is always there. A guest has a
  // rank from wire::kFirstGuest on, never used before.
  virtual void on_connected(Rank peer, uint64_t incarnation) = 0;
  // A message from a connected peer or from the own rank, never one of the handshake or a heartbeat. `payload` is valid
  // during the call only, and aligned for tensors.
  virtual void on_message(Rank from, const wire::Message& message, ByteSpan payload) = 0;
  // Once for each on_connected, unless the transport itself is closed. Whatever was still under way is lost; `reason`
  // is for people. A peer that this side dials is dialled again.
  virtual void on_lost(Rank peer, const std::string& reason) = 0;
  // `by` was dialled and does not want this task; it is not dialled again. `refuse.ours` is what `by` has.
  virtual void on_refused(Rank by, const wire::Refuse& refuse) = 0;
  // `peer` was dialled for start_timeout without success; it is not dialled again.
  virtual void on_unreachable(Rank peer, const std::string& reason) = 0;
};

}  // namespace dtrain::net
