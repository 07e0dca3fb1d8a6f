// A worker's half of the synchronous step: which node of which step is to be computed next, which version every block
// must have for it, and the way of gradients to the servers. A state machine without I/O: messages in, messages out
// through the outbox; the compute side asks for work and reports what it made.
//
// Threading: one thread, the process's loop. Values that the compute side hands in are not copied: their owner is held
// until the server has answered, and in every message under way.
// It knows no connections: a worker joins the run when it reaches all servers, and one that loses its coordinator or a
// server begins anew, as another incarnation on connections of its own, with a new protocol. What must hold: gradients
// labelled with step t were computed from version t of every block (a frozen one is every version, and pulled once). So
// parameter memory never turns to another version while a work is in progress, and the compute side reads a parameter
// only when parameter_ready says so.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "ps/tree.h"

namespace dtrain::worker {

// The micro-batches of one node of the tree of one step.
struct Work {
  wire::StepKind kind = wire::StepKind::kTrain;
  int64_t step = 0;
  ps::Node node;

  bool operator==(const Work&) const = default;
};

class WorkerProtocol {
 public:
  // What does not change during a run. The table and the outbox outlive the protocol; memory[p] holds all elements of
  // parameter p.
  struct Setup {
    std::vector<wire::Rank> server_ranks;  // of the servers of the block table, by index
    wire::Rank coordinator = 0;            // shares the process of server 0
    uint32_t micro_batches = 0;            // K
    uint32_t eval_micro_batches = 0;       // 0: no evaluations
    std::vector<float*> memory;
  };
  WorkerProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox);

  // Assign, Take, Absorbed, ParameterChunk, Gone. An error means that the peer broke the protocol.
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload = {});

  // What the compute side should do next, one at a time; nothing while a work is in progress. Parameters may still be
  // arriving.
  std::optional<Work> next_work() const;
  // Whether all of parameter p is in memory at `version`.
  bool parameter_ready(ParameterIndex parameter, int64_t version) const;
  // Whether the work in progress is of no use any more. The compute side then leaves it and says finished; until it
  // does, parameter memory keeps the version.
  bool cancelled(const Work& work) const;

  // From the compute side, in this order; REQUIRES that `work` is the one in progress.
  void started(const Work& work);
  // The sums over the node. Goes out before any gradient of the node, so that no step is complete without its metrics.
  void metrics(const Work& work, const Metrics& metrics);
  // The sum over the node of a parameter's gradient (or, of a statistic, of what the micro-batches make of it): all
  // elements, or those of some whole blocks. `values` holds them and does not change while `owner` is held.
  struct Sum {
    ParameterIndex parameter = 0;
    int64_t first = 0, elements = 0;
    const float* values = nullptr;
  };
  void gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner);
  void finished(const Work& work);
  // How many blocks of this work's gradients still wait for the servers' answer: at 0 their memory is free, but for
  // what messages under way hold.
  size_t unanswered(const Work& work) const;

  // The step that it works on, or whose parameters it waits for; -1 before the first assignment.
  int64_t step() const { return step_; }

 private:
  // What parameter memory holds of a block.
  struct Held {
    int64_t version = -1;   // wanted, or there; of a frozen block the one that was asked for
    uint32_t missing = 0;   // chunks of it that have not come
    bool written = false;   // some of it has: `previous` is overwritten
    int64_t previous = -1;  // complete in memory as long as nothing of `version` was written
  };
  struct OfferKey {
    int64_t step = 0;
    ps::Node node;
    uint32_t block = 0;
    auto operator<=>(const OfferKey&) const = default;
  };
  struct Offered {
    const float* values = nullptr;
    std::shared_ptr<const void> owner;
  };

  Status on(wire::Rank from, const wire::Assign& m);
  Status on(wire::Rank from, const wire::Take& m);
  Status on(wire::Rank from, const wire::Absorbed& m);
  Status on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload);
  Status on(wire::Rank from, const wire::Gone& m);
  Status check_block(wire::Rank from, uint32_t block, const char* message) const;

  uint32_t micro_batches(wire::StepKind kind) const;
  std::vector<ps::Node> remaining(const wire::Assign& assign, int64_t step) const;
  // To another step: at once, or when the work in progress has been left.
  void move(wire::StepKind kind, int64_t step);
  // Wants every block at step_, and pulls what memory does not hold.
  void want();
  // On to the next step, when the share of this one is done.
  void advance();
  void send_chunks(const OfferKey& key, const Offered& offered, uint32_t chunks);

  const ps::BlockTable& table_;
  const Setup setup_;
  wire::Outbox& outbox_;
  std::optional<wire::Assign> assign_;
  wire::StepKind kind_ = wire::StepKind::kTrain;
  int64_t step_ = -1;
  // All blocks are known to have had this version, so that no earlier step needs anybody. step_ is this or the next.
  int64_t floor_ = -1;
  std::optional<Work> current_;
  bool current_cancelled_ = false;
  int64_t wanted_ = -1;    // the version that all blocks were last wanted at
  bool want_due_ = false;  // step_ changed under a work in progress
  std::map<std::pair<int64_t, wire::StepKind>, std::vector<ps::Node>> done_;
  std::vector<Held> held_;
  uint32_t incomplete_ = 0;  // blocks with chunks missing
  std::map<OfferKey, Offered> offers_;
};

}  // namespace dtrain::worker
