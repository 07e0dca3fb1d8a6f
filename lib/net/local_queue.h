// Messages of a task to itself, between two of its roles: first in, first out; payloads by pointer. One thread. Pushing
// allocates nothing once the queue has grown to its usual length.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "net/handler.h"

namespace dtrain::net {

class LocalQueue {
 public:
  void push(wire::Message message, wire::Payload payload) {
    bytes_ += payload.bytes.size();
    items_.push_back({std::move(message), std::move(payload)});
  }

  // Hands the oldest message to `handler`; false where there is none. What the handler pushes meanwhile comes later.
  bool deliver_one(Rank self, Handler& handler) {
    if (items_.empty()) return false;
    const Item item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item.payload.bytes.size();
    handler.on_message(self, item.message, item.payload.bytes);
    return true;
  }

  size_t size() const { return items_.size(); }
  size_t bytes() const { return bytes_; }  // of payloads

 private:
  struct Item {
    wire::Message message;
    wire::Payload payload;
  };

  std::deque<Item> items_;
  size_t bytes_ = 0;
};

}  // namespace dtrain::net
