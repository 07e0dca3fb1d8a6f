// Carries messages between the tasks of a cluster. Implementations: net/asio (sockets), net/memory (one process: a
// queue, or a simulated network). All of it belongs to one loop thread, which makes every call to the Handler.
//
// send() never blocks and never calls back. Messages to one rank arrive in the order sent, but that those without
// payload may overtake those with one. A message to the own rank takes a local queue: it is delivered later by the
// loop, its payload by pointer. A message to a rank that is not connected is dropped.
#pragma once

#include <cstddef>
#include <string>

#include "net/handler.h"
#include "proto-free-wire/message.h"

namespace dtrain::net {

class Transport : public wire::Outbox {
 public:
  virtual Rank self() const = 0;
  // The own rank always is.
  virtual bool connected(Rank peer) const = 0;
  // Bytes accepted by send() and not yet handed on.
  virtual size_t queued_bytes(Rank to) const = 0;
  // Ends the connection, dropping what is queued; the loop calls on_lost with this reason later. Nothing where there is
  // none. The other side may come again.
  virtual void disconnect(Rank peer, const std::string& reason) = 0;
};

}  // namespace dtrain::net
