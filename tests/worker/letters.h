// An outbox that remembers, for the tests of the worker's protocols.
#pragma once

#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "proto-free-wire/message.h"

namespace dtrain::worker {

class Letters final : public wire::Outbox {
 public:
  struct Letter {
    wire::Rank to;
    wire::Message message;
    wire::Payload payload;
  };
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
    letters.push_back({to, std::move(message), std::move(payload)});
  }
  // All messages of one type since the last call of clear().
  template <typename M>
  std::vector<M> all() const {
    std::vector<M> out;
    for (const Letter& letter : letters)
      if (const M* m = std::get_if<M>(&letter.message)) out.push_back(*m);
    return out;
  }
  // The same, and they are forgotten.
  template <typename M>
  std::vector<M> take() {
    const std::vector<M> out = all<M>();
    std::erase_if(letters, [](const Letter& letter) { return std::holds_alternative<M>(letter.message); });
    return out;
  }
  // The same, each with whom it is for.
  template <typename M>
  std::vector<std::pair<wire::Rank, M>> take_addressed() {
    std::vector<std::pair<wire::Rank, M>> out;
    for (const Letter& letter : letters)
      if (const M* m = std::get_if<M>(&letter.message)) out.emplace_back(letter.to, *m);
    take<M>();
    return out;
  }
  void clear() { letters.clear(); }
  std::deque<Letter> letters;
};

}  // namespace dtrain::worker
