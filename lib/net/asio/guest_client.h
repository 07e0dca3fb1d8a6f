// The other end of a guest's connections: who is no task of a run and looks at it from outside. One thread; its calls
// wait, but never beyond the time that they are given, and keep all connections alive meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/endpoint.h"
#include "net/mutual_proof.h"
#include "proto-free-wire/message.h"

namespace dtrain::net {

struct GuestEvent {
  size_t link = 0;  // the connection that it is about
  wire::Message message;
  std::vector<std::byte> payload;
  std::string lost;  // not empty: the connection has ended, and why; nothing else is said then
};

class GuestClient {
 public:
  // With a secret it proves that it holds it, and takes nothing from a task that does not prove the same.
  explicit GuestClient(std::string program, ProofMeans proof = {});
  ~GuestClient();
  GuestClient(const GuestClient&) = delete;
  GuestClient& operator=(const GuestClient&) = delete;

  // A connection to a task that has said Welcome; links are numbered from 0 in the order of the calls. Errors: nobody
  // there or something else than a task (kPeerLost), another version of the protocol (kUsage), refused (the code of the
  // task), not proven (kAuthentication).
  Result<size_t> connect(const Endpoint& endpoint, Nanoseconds timeout);
  // Dropped where the connection has ended.
  void send(size_t link, wire::Message message, wire::Payload payload = {});
  // The next message or loss, of any link; nothing where none comes within `timeout`.
  std::optional<GuestEvent> next(Nanoseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::net
