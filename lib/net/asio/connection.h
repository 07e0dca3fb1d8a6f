// Frames over one connected socket, TCP or Unix-domain. Belongs to the loop's thread.
//
// Outgoing has what is written and in which order. Reading never waits for writing. The first error closes the
// connection.
//
// Over a Unix-domain socket tensors that lie in shared memory go by reference, and the owner is given the other side's
// memory itself, during the call. Who lends memory holds its owner until the other side has read it, or reads no more:
// it says so, or has closed, or is dead, all of which the kernel tells. So a connection that this side gives up with
// memory lent closes only its writing half, and waits, without the owner, for the end of the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/asio/unique_fd.h"
#include "proto-free-wire/frame.h"
#include "tensor/shared_memory.h"

namespace asio {
class io_context;
}

namespace dtrain::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Calls come from the loop, never from inside a call to the connection, and none comes after close().
  class Owner {
   public:
    virtual ~Owner() = default;
    // The payload is valid during the call.
    virtual void on_frame(const wire::Message& message, ByteSpan payload) = 0;
    // The other side speaks another version of the protocol. Nothing more is read; what is sent is still written.
    virtual void on_foreign_version(uint16_t version) = 0;
    // The connection has closed by itself; it is the last call.
    virtual void on_closed(const std::string& reason) = 0;
  };

  struct Limits {  // bytes that may wait for a peer that does not read; one more closes the connection
    size_t control = 0, tensors = 0;
  };
  // Frames are held to kStrangerLimits until trust() is called. `memory`: where tensors may lie that go by reference to
  // a trusted peer on this host; may be null.
  static std::shared_ptr<Connection> make(asio::io_context& loop, UniqueFd socket, Limits limits,
                                          std::shared_ptr<SharedMemory> memory, Owner& owner);
  virtual ~Connection() = default;

  // Begins to read.
  virtual void start() = 0;
  // `shares`: both sides may refer to memory of the other (a task does, a guest does not).
  virtual void trust(bool shares) = 0;
  virtual void send(wire::Message message, wire::Payload payload) = 0;
  // At once; what is queued is dropped. The owner is not called.
  virtual void close() = 0;
  // Nothing more is sent or given to the owner; when the queue is written the other side is told so, and when it has
  // closed as well on_closed follows.
  virtual void finish() = 0;

  virtual size_t queued_bytes() const = 0;
  // So far, of any kind: a sign of life of the other side and of this one.
  virtual uint64_t bytes_read() const = 0;
  virtual uint64_t bytes_written() const = 0;
  // The other end, for people.
  virtual const std::string& peer() const = 0;
};

}  // namespace dtrain::net
