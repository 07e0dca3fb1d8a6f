// Decides, at the coordinator, as which version the values count that a guest puts: when all shard servers that hold
// some of the tensor have their part, the first version whose rate no server has been told. The order to the servers
// goes before that rate, so that each of them knows it in time and all blocks of the tensor change at one version.
//
// One put at a time. State machine without I/O; borrows what it is constructed with.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"

namespace dtrain::watch {

// Where a run stands, as its coordinator sees it.
struct RunPosition {
  int64_t step = 0;   // complete on all servers
  int64_t rated = 0;  // servers have the rates of the steps before this one
  int64_t steps = 0;  // of the whole run
  std::string phase;  // "training"; "stopping" and "finished" take no put any more
  bool over = false;
};

struct PutMasterSetup {
  std::vector<wire::Rank> server_ranks;
  std::function<RunPosition()> position;
  std::function<void(int64_t version, const std::string& tensor)> on_put;  // it has happened
};

class PutMaster {
 public:
  PutMaster(PutMasterSetup setup, const ps::BlockTable& table, wire::Outbox& outbox, Log& log)
      : setup_(std::move(setup)), table_(table), outbox_(outbox), log_(log) {}

  // Whether the guest may go on; it was told where not.
  bool on(wire::Rank guest, const wire::Put& put, Instant now);
  void on(wire::Rank server, const wire::PutStaged& staged);
  void on_lost(wire::Rank guest);
  // When the run may have gone on, and now and then.
  void look(Instant now);

 private:
  struct UnderWay {
    wire::Rank guest = 0;
    wire::Put put;
    std::set<wire::Rank> servers, staged;
    Instant until = 0;     // gives up if not all is staged
    int64_t version = -1;  // ordered
  };

  void order(int64_t version);
  void give_up(const std::string& why);

  const PutMasterSetup setup_;
  const ps::BlockTable& table_;
  wire::Outbox& outbox_;
  Log& log_;
  std::optional<UnderWay> under_way_;
};

}  // namespace dtrain::watch
