// What a task says to guests, who look at a run from outside: which run this is, the tensors that it holds, how all
// tasks are doing; and what it takes from them. Guests must not be felt by the run: what they make a task hold is
// bounded, and one that does not read is cut off.
//
// State machine without I/O, on the task's loop thread. Borrows what it is constructed with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "net/transport.h"
#include "ps/shard_server.h"
#include "ps/step_watcher.h"
#include "watch/put_desk.h"
#include "watch/put_master.h"
#include "watch/read_desk.h"
#include "watch/status_board.h"

namespace dtrain::watch {

struct GuestDeskSetup {
  std::string run;  // its name
  wire::Rank self = 0, coordinator = 0;
  std::vector<wire::TaskPlace> tasks;    // by rank
  std::vector<wire::Rank> server_ranks;  // by server
  std::optional<uint32_t> server_index;  // of this task
  bool allow_put = false;
};

class GuestDesk final : public ps::StepWatcher {
 public:
  // Without reading for so long, though there is something to read, a guest is cut off.
  static constexpr Nanoseconds kPatience = 10 * kSecond;

  GuestDesk(GuestDeskSetup setup, const ps::BlockTable& table, net::Transport& transport, Log& log);

  // This task is the coordinator.
  void coordinate(std::function<RunPosition()> position,
                  std::function<void(int64_t version, const std::string& tensor)> on_put);
  // This task has tensors from now on.
  void serve(ps::ShardServer& server);

  // From guests all that they send; from tasks TaskStatus, PutStaged, PutOrder. An error means that the sender breaks
  // the protocol and should be cut off.
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload, Instant now);
  // Of guests and of tasks.
  void on_connected(wire::Rank rank, Instant now);
  void on_lost(wire::Rank rank);
  // Often.
  void on_tick(Instant now);
  // The coordinator has taken a message.
  void on_progress(Instant now) {
    if (master_) master_->look(now);
  }

  void on_root(uint32_t block, uint32_t chunk, int64_t step, std::span<const float> root) override {
    reads_.on_root(block, chunk, step, root);
  }
  bool on_commit(uint32_t block, int64_t version, std::span<float> values) override {
    const bool changed = puts_ && puts_->on_commit(block, version, values);
    reads_.on_commit(block, version);
    return changed;
  }

 private:
  struct Unread {
    size_t bytes = 0;   // that waited for the guest at the last look
    Instant since = 0;  // when it last took some
  };

  Status on_guest_message(wire::Rank guest, const wire::Message& message, ByteSpan payload, Instant now);
  void tell_run(wire::Rank guest);
  Status put(wire::Rank guest, const wire::Put& put, Instant now);

  const GuestDeskSetup setup_;
  const ps::BlockTable& table_;
  net::Transport& transport_;
  Log& log_;
  ReadDesk reads_;
  std::optional<PutDesk> puts_;      // of a shard server
  std::optional<PutMaster> master_;  // of the coordinator
  std::optional<StatusBoard> board_;
  std::function<RunPosition()> position_;
  std::map<wire::Rank, Unread> guests_;
};

}  // namespace dtrain::watch
