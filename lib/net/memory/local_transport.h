// The transport of a run in one process: one rank, which sends to itself alone. The owner pumps it on its one thread.
#pragma once

#include <string>
#include <utility>

#include "net/local_queue.h"
#include "net/transport.h"

namespace dtrain::net {

class LocalTransport final : public Transport {
 public:
  // `handler` must outlive the calls to pump.
  void start(Handler& handler) { handler_ = &handler; }

  // Delivers the oldest message; false where there is none.
  bool pump_one() { return handler_ != nullptr && queue_.deliver_one(self(), *handler_); }
  // Delivers until nothing is left, also what is sent meanwhile; how many it were.
  size_t pump() {
    size_t delivered = 0;
    while (pump_one()) ++delivered;
    return delivered;
  }

  void send(Rank to, wire::Message message, wire::Payload payload = {}) override {
    if (to == self()) queue_.push(std::move(message), std::move(payload));
  }
  Rank self() const override { return 0; }
  bool connected(Rank peer) const override { return peer == self(); }
  size_t queued_bytes(Rank to) const override { return to == self() ? queue_.bytes() : 0; }
  void disconnect(Rank, const std::string&) override {}

 private:
  Handler* handler_ = nullptr;
  LocalQueue queue_;
};

}  // namespace dtrain::net
