// A worker's half of the training step: which micro-batches are to be computed next, which version every block must
// have for it, and the way of gradients to the servers. A state machine without I/O: messages in, messages out through
// the outbox; the compute side asks for work and reports what it made. SyncProtocol goes step by step, AsyncProtocol
// from push to push.
//
// Threading: one thread, the process's loop. Values that the compute side hands in are not copied: their owner is held
// until the server has answered, and in every message under way.
// It knows no connections: a worker joins the run when it reaches all servers, and one that loses its coordinator or a
// server begins anew, as another incarnation on connections of its own, with a new protocol.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "consistency/admission_rule.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "worker/offered_gradients.h"
#include "worker/work.h"

namespace dtrain::worker {

class WorkerProtocol {
 public:
  // What does not change during a run; memory[p] holds all elements of parameter p.
  struct Setup {
    std::vector<wire::Rank> server_ranks;  // of the servers of the block table, by index
    wire::Rank coordinator = 0;            // shares the process of server 0
    uint32_t micro_batches = 0;            // K
    uint32_t eval_micro_batches = 0;       // 0: no evaluations
    std::vector<float*> memory;            // null: the parameter is not wanted here, but on another task of the split
    std::shared_ptr<const consistency::AdmissionRule> rule = nullptr;  // null: synchronous
    Compression compression = {};
  };
  // The table and the outbox outlive the protocol.
  static std::unique_ptr<WorkerProtocol> make(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox);
  virtual ~WorkerProtocol() = default;

  // Assign, WorkerRates, Take, Absorbed, ParameterChunk, Gone; Rows, RowsGone, RowsTaken. An error means that the peer
  // broke the protocol.
  virtual Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload = {}) = 0;

  // What the compute side should do next, one at a time; nothing while a work is in progress. Parameters may still be
  // arriving.
  virtual std::optional<Work> next_work() const = 0;
  // Whether all of parameter p is in memory, fit for step `step`.
  virtual bool parameter_ready(ParameterIndex parameter, int64_t step) const = 0;
  // The compute side has waited for parameters as long as it likes: older ones will do, if the mode allows.
  virtual void hurry() {}
  // Whether the work in progress is of no use any more. The compute side then leaves it and says finished; until it
  // does, the memory of what it has not handed in the gradient of keeps the version.
  virtual bool cancelled(const Work& work) const = 0;

  // From the compute side, in this order; REQUIRES that `work` is the one in progress.
  virtual void started(const Work& work) = 0;
  // The sums over the node. Goes out before any gradient of the node, so that no step is complete without its metrics.
  virtual void metrics(const Work& work, const Metrics& metrics) = 0;
  // The sum over the node of a parameter's gradient (or, of a statistic, of what the micro-batches make of it): all
  // elements, or those of some whole blocks. `values` holds them and does not change while `owner` is held. The work
  // reads their values no more: the next version may be written into their memory.
  struct Sum {
    ParameterIndex parameter = 0;
    int64_t first = 0, elements = 0;
    const float* values = nullptr;
  };
  virtual void gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) = 0;
  virtual void finished(const Work& work) = 0;

  // Where there are sparse tables, for each micro-batch of a work in turn. The rows that it uses, ascending
  // (ps/row_space.h), to be put into `into`, where each table has memory for its rows one behind the other; it is
  // written until rows_ready() says that all are there, at the step's version, or until the work is finished.
  virtual void pull_rows(const Work& work, std::span<const uint64_t> rows, std::span<float* const> into);
  virtual bool rows_ready() const;
  // Their gradient, laid out alike. The values are copied: row_pushes() says of how many servers' answers are due.
  virtual void push_rows(const Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                         std::span<const float* const> gradients);
  virtual size_t row_pushes() const { return 0; }
  // How many blocks of this work's gradients, and shares of its rows, still wait for the servers' answer: at 0 their
  // memory is free, but for what messages under way hold.
  virtual size_t unanswered(const Work& work) const = 0;
  // How many works may hold a set of gradients until this one is with the servers, who may need it before they have
  // room for theirs: other nodes of its step, and of later steps where it was sent back. Whoever computes it must not
  // wait for their memory, but have so many sets more.
  virtual size_t held_sets(const Work&) const { return 0; }

  // The learning rate of a step, for a worker that takes steps of its own; REQUIRES that a work of it was given out.
  virtual double rate(int64_t step) const = 0;

  // The step that it works on, or whose parameters it waits for; -1 before the first assignment.
  virtual int64_t step() const = 0;
};

}  // namespace dtrain::worker
