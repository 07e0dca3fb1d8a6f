// The outbox of a task's worker, which sends from two threads: on the loop's thread at once, from the compute thread
// by a function that the loop runs, in order. What the compute thread says under a Hold leaves at its end and together,
// so that the loop is woken once, and not while the worker holds a lock that the loop wants.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "proto-free-wire/message.h"

namespace dtrain::node {

class PostedOutbox final : public wire::Outbox {
 public:
  // Runs a function on the loop thread, soon, in the order of the calls; from any thread.
  using Post = std::function<void(std::function<void()>)>;
  // Of the thread that makes it: that is the loop's. `to` outlives this object.
  PostedOutbox(wire::Outbox& to, Post post) : to_(to), post_(std::move(post)), loop_(std::this_thread::get_id()) {}

  void send(wire::Rank to, wire::Message message, wire::Payload payload = {}) override {
    if (std::this_thread::get_id() == loop_) return to_.send(to, std::move(message), std::move(payload));
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back({to, std::move(message), std::move(payload)});
    }
    if (holds_ == 0) post_letters();
  }

  // On the compute thread.
  class Hold {
   public:
    explicit Hold(PostedOutbox& outbox) : outbox_(outbox) { ++outbox_.holds_; }
    ~Hold() {
      if (--outbox_.holds_ == 0) outbox_.post_letters();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    PostedOutbox& outbox_;
  };

 private:
  struct Letter {
    wire::Rank to;
    wire::Message message;
    wire::Payload payload;
  };

  void post_letters() {
    {
      const std::lock_guard lock(mutex_);
      if (letters_.empty() || std::exchange(posted_, true)) return;
    }
    post_([this] { send_letters(); });
  }

  void send_letters() {
    {
      const std::lock_guard lock(mutex_);
      posted_ = false;
      sending_.swap(letters_);
    }
    for (Letter& letter : sending_) to_.send(letter.to, std::move(letter.message), std::move(letter.payload));
    sending_.clear();
  }

  wire::Outbox& to_;
  const Post post_;
  const std::thread::id loop_;
  int holds_ = 0;  // the compute thread's
  std::mutex mutex_;
  std::vector<Letter> letters_;
  bool posted_ = false;
  std::vector<Letter> sending_;  // the loop's; keeps its memory
};

}  // namespace dtrain::node
