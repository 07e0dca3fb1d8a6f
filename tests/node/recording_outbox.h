// Keeps what is sent, for the test to answer. Thread-safe; waits for messages, never for ever.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "proto-free-wire/message.h"

namespace dtrain::node {

class RecordingOutbox final : public wire::Outbox {
 public:
  struct Letter {
    wire::Rank to = 0;
    wire::Message message;
    wire::Payload payload;
  };
  void send(wire::Rank to, wire::Message message, wire::Payload payload = {}) override {
    if (std::holds_alternative<wire::WorkDone>(message)) return;  // comes when the last answer happens to come
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back({to, std::move(message), std::move(payload)});
    }
    changed_.notify_all();
  }
  // The oldest message; the test fails where none comes.
  std::optional<Letter> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !letters_.empty(); })) {
      ADD_FAILURE() << "no message came";
      return std::nullopt;
    }
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return letters_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter> letters_;
};

}  // namespace dtrain::node
