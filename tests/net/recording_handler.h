// A handler that remembers, as one line each, what happened to it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/handler.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {

class RecordingHandler : public Handler {
 public:
  void on_connected(Rank peer, uint64_t incarnation) override {
    add("connected " + std::to_string(peer) + " incarnation " + std::to_string(incarnation));
    if (when_connected) when_connected(peer);
  }
  void on_message(Rank from, const wire::Message& message, ByteSpan payload) override {
    add(std::to_string(from) + ": " + wire::print(message));
    if (when_message) when_message(from, message, payload);
  }
  void on_lost(Rank peer, const std::string& reason) override {
    add("lost " + std::to_string(peer) + ": " + reason);
    if (when_lost) when_lost(peer, reason);
  }
  void on_refused(Rank by, const wire::Refuse& refuse) override {
    add("refused by " + std::to_string(by) + ": " + wire::print(refuse));
    if (when_refused) when_refused(by, refuse);
  }
  void on_unreachable(Rank peer, const std::string& reason) override {
    add("unreachable " + std::to_string(peer) + ": " + reason);
    if (when_unreachable) when_unreachable(peer, reason);
  }

  std::vector<std::string> lines;
  std::function<void(Rank)> when_connected;
  std::function<void(Rank, const wire::Message&, ByteSpan)> when_message;
  std::function<void(Rank, const std::string&)> when_lost, when_unreachable;
  std::function<void(Rank, const wire::Refuse&)> when_refused;

 private:
  void add(std::string line) { lines.push_back(std::move(line)); }
};

}  // namespace dtrain::net
