// What the coordinator has heard of how all tasks are doing, for guests who ask. One thread, the coordinator's.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "proto-free-wire/message.h"
#include "watch/put_master.h"

namespace dtrain::watch {

class StatusBoard {
 public:
  explicit StatusBoard(size_t tasks) : heard_(tasks) {}

  void on(wire::Rank from, const wire::TaskStatus& status, Instant now) {
    if (from < heard_.size()) heard_[from] = {status, now};
  }
  void on_lost(wire::Rank rank) {
    if (rank < heard_.size()) heard_[rank].reset();
  }
  void answer(wire::Rank guest, const wire::AskStatus& ask, const RunPosition& at, Instant now,
              wire::Outbox& outbox) const {
    for (wire::Rank rank = 0; rank < heard_.size(); ++rank) {
      wire::StatusRow row{.request = ask.request, .rank = rank, .age = -1, .status = {}};
      if (heard_[rank]) {
        row.age = static_cast<double>(now - heard_[rank]->at) / kSecond;
        row.status = heard_[rank]->status;
      }
      outbox.send(guest, row);
    }
    outbox.send(guest, wire::StatusEnd{ask.request, at.step, at.steps, at.phase});
  }

 private:
  struct Heard {
    wire::TaskStatus status;
    Instant at = 0;
  };
  std::vector<std::optional<Heard>> heard_;  // by rank
};

}  // namespace dtrain::watch
