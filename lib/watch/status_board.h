// What the coordinator has heard of how all tasks are doing, for guests who ask. One thread, the coordinator's.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "proto-free-wire/message.h"
#include "watch/put_master.h"

namespace dtrain::watch {

class StatusBoard {
 public:
  explicit StatusBoard(size_t tasks) : heard_(tasks) {}

  // `at`: where the run stands now; a report that is older by the time somebody asks says nothing about the lag.
  void on(wire::Rank from, const wire::TaskStatus& status, const RunPosition& at, Instant now) {
    if (from >= heard_.size()) return;
    heard_[from] = {status, status.step < 0 ? -1 : std::max<int64_t>(0, at.step - status.step), now};
  }
  void on_lost(wire::Rank rank) {
    if (rank < heard_.size()) heard_[rank].reset();
  }
  void answer(wire::Rank guest, const wire::AskStatus& ask, const RunPosition& at, Instant now,
              wire::Outbox& outbox) const {
    for (wire::Rank rank = 0; rank < heard_.size(); ++rank) {
      wire::StatusRow row{.request = ask.request, .rank = rank, .age = -1, .lag = -1, .status = {}};
      if (heard_[rank]) {
        row.age = static_cast<double>(now - heard_[rank]->at) / kSecond;
        row.lag = heard_[rank]->lag;
        row.status = heard_[rank]->status;
      }
      outbox.send(guest, row);
    }
    outbox.send(guest, wire::StatusEnd{ask.request, at.step, at.steps, at.phase});
  }

 private:
  struct Heard {
    wire::TaskStatus status;
    int64_t lag = -1;
    Instant at = 0;
  };
  std::vector<std::optional<Heard>> heard_;  // by rank
};

}  // namespace dtrain::watch
