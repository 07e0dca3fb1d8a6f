// The worker role of a process but for what drives it: the protocol, the programs, the memory, the data. Made when the
// coordinator has said Begin.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "node/network_split.h"
#include "node/run_definition.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "worker/engine/batch_feed.h"
#include "worker/engine/gradient_pool.h"
#include "worker/engine/parameter_storage.h"
#include "worker/engine/stage_engine.h"
#include "worker/engine/step_engine.h"
#include "worker/worker_protocol.h"

namespace dtrain::node {

class WorkerSide {
 public:
  // Whether a run can do without memory for a set of gradients: its driver uses each one before the next is made, and
  // nothing is done with a whole gradient.
  static bool needs_no_gradients(const RunDefinition& run, bool uses_gradients_at_once, uint32_t micro_batches) {
    const consistency::Mode& mode = run.rule->mode();
    const bool plain = mode.lockstep && mode.stride == 1 && !mode.single && !run.optimizer.optimizer->full_batch();
    return plain && uses_gradients_at_once && micro_batches == 1;
  }
  // Gradient sets that a mode takes beyond what a node needs: a push may be the sum of several gradients, or under way
  // while the next is made.
  static size_t more_sets(const consistency::Mode& mode) {
    return (mode.push_every > 1 ? 1 : 0) + (mode.fetch_every > 1 ? 1 : 0);
  }
  // `memory` is where parameters lie (the servers' own, in one process) and must outlive it, like all that is referred
  // to. `shared`: where gradients lie that go to servers on this host; null: the heap. With a split the worker is one
  // stage of the network, that of rank `self`.
  WorkerSide(const RunDefinition& run, const ps::BlockTable& table, const worker::ParameterStorage& memory,
             std::vector<wire::Rank> server_ranks, const wire::Begin& begin, wire::Outbox& outbox,
             std::unique_ptr<worker::BatchFeed> feed, bool uses_gradients_at_once = false,
             worker::OpProfile* profile = nullptr, std::shared_ptr<SharedMemory> shared = nullptr,
             std::shared_ptr<const NetworkSplit> split = nullptr, wire::Rank self = 0);

  // Plans the programs for this many threads; on the thread that will call run(), since OpenMP's setting is a thread's
  // own.
  Status prepare();
  // What an engine of the run needs, but for its feed and pool, and rows of sparse tables; plans the programs for the
  // thread that calls.
  static Result<worker::StepEngine::Setup> engine_setup(const RunDefinition& run,
                                                        const worker::ParameterStorage& memory,
                                                        const wire::Begin& begin, bool own_gradients = false);
  Status run(const worker::Work& work, worker::StepPort& port) {
    return stage_engine_ ? stage_engine_->run(work, port) : engine_->run(work, port);
  }
  // A message for the protocol, or from another stage.
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload);

  worker::WorkerProtocol& protocol() { return *protocol_; }
  size_t servers() const { return table_.servers(); }
  worker::GradientPool& pool() { return pool_; }

 private:
  Status prepare_stage();

  const RunDefinition& run_;
  const ps::BlockTable& table_;
  const worker::ParameterStorage& memory_;
  const bool in_place_;
  const wire::Begin begin_;
  worker::OpProfile* const profile_;
  const bool own_gradients_;  // of the program: no set of them is kept
  std::unique_ptr<worker::WorkerProtocol> protocol_;
  worker::GradientPool pool_;
  std::unique_ptr<worker::BatchFeed> feed_;
  std::optional<worker::StepEngine> engine_;
  const std::shared_ptr<const NetworkSplit> split_;
  const int task_ = 0;  // of the split
  std::optional<worker::StageExchange> exchange_;
  std::optional<worker::StageEngine> stage_engine_;
};

}  // namespace dtrain::node
