// What the stages of a network give each other: activations, and gradients with respect to them. Values that another
// task makes come in pieces and wait here for the segment that reads them; those that this one makes go to whoever
// reads them.
//
// Flow: a task begins a micro-batch only when all that read its values are done with the one `window` before it. So no
// task has to keep more than that of another's.
// A work (worker/work.h) is a whole step here, of training or of an evaluation. Works come in the order of their steps;
// what belongs to one that is over is dropped.
//
// No I/O; what comes from peers is untrusted. Thread-safe: messages come on the loop, the rest on the compute thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "tensor/buffer.h"
#include "worker/work.h"

namespace dtrain::worker {

// The values that cross a task's cuts in a step of one kind.
struct StageLinks {
  struct Import {
    uint32_t value = 0;
    wire::Rank from = 0;
    size_t bytes = 0;
  };
  struct Export {
    uint32_t value = 0;
    std::vector<wire::Rank> to;
  };
  uint32_t micro_batches = 0;   // of a step; 0: there are no such steps
  std::vector<Import> imports;  // by value
  std::vector<Export> exports;
};

class StageExchange {
 public:
  // `window`: of any task, in micro-batches. The outbox outlives the exchange.
  StageExchange(uint32_t window, wire::Outbox& outbox) : window_(window), outbox_(outbox) {}

  // Before the task says that it is ready, and so before anything can come.
  void connect(StageLinks train, StageLinks eval);

  // StageValue, StageDone. An error means that the peer broke the protocol.
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload);

  // ---- of the compute thread, for the work under way
  void begin(const Work& work);
  // Whether micro-batch m may be begun, with all before it begun.
  bool may_start(uint32_t micro_batch) const;
  // Import `i` of a micro-batch, once it is there; else null. Valid until done().
  const void* find(uint32_t micro_batch, size_t i) const;
  // Export `i`. The bytes are copied.
  void send(uint32_t micro_batch, size_t i, ByteSpan bytes);
  // Nothing more is read of the micro-batches before `micro_batches`.
  void done(uint32_t micro_batches);
  // The work is over, done or not.
  void end();

 private:
  // Steps in their order: an evaluation of version t comes before step t.
  struct Place {
    int64_t step = -1;
    wire::StepKind kind = wire::StepKind::kEval;
    auto operator<=>(const Place& o) const {
      const auto key = [](const Place& p) { return std::pair(p.step, p.kind == wire::StepKind::kTrain); };
      return key(*this) <=> key(o);
    }
    bool operator==(const Place&) const = default;
  };
  struct Arriving {
    Buffer buffer;
    size_t filled = 0;
  };
  using Key = std::pair<Place, uint32_t>;  // a micro-batch
  class Pool;

  Status on(wire::Rank from, const wire::StageValue& m, ByteSpan payload);
  Status on(wire::Rank from, const wire::StageDone& m);
  const StageLinks& links(wire::StepKind kind) const { return kind == wire::StepKind::kTrain ? train_ : eval_; }
  // How many micro-batches of a work a reader of this task's values is done with.
  uint32_t done_by(wire::Rank reader, const Place& place) const;
  void tell_done(uint32_t micro_batches);

  mutable std::mutex mutex_;
  const uint32_t window_;
  wire::Outbox& outbox_;
  StageLinks train_, eval_;
  std::optional<Place> current_, before_;  // `before_`: the last one that was done to its end
  uint32_t done_ = 0;
  std::map<Key, std::map<uint32_t, Arriving>> arriving_;  // by import
  std::map<size_t, std::vector<Buffer>> free_;            // by size
  std::map<wire::Rank, std::pair<Place, uint32_t>> done_by_;
  std::shared_ptr<Pool> pool_;  // for what is sent
};

}  // namespace dtrain::worker
