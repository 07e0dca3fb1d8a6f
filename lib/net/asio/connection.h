// Frames over one connected socket, TCP or Unix-domain. Belongs to the loop's thread.
//
// Writing: control messages are encoded at once into one buffer; tensors wait in a queue of their own as what they are.
// A write takes all control there is, then tensors up to one chunk, and gathers them from where they lie; a payload's
// checksum is computed just before, so that the kernel's copy finds it in the cache. Reading never waits for writing.
// The first error closes the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/asio/unique_fd.h"
#include "proto-free-wire/frame.h"

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

  // Frames are held to kStrangerLimits until trust() is called. `most_control`: bytes of control messages that may wait
  // for a peer that does not read; one more closes the connection.
  static std::shared_ptr<Connection> make(asio::io_context& loop, UniqueFd socket, size_t most_control, Owner& owner);
  virtual ~Connection() = default;

  // Begins to read.
  virtual void start() = 0;
  virtual void trust() = 0;
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
