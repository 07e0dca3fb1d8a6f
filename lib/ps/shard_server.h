// Holds blocks and rows of one shard server, turns their version t into t + 1: a state machine without I/O. Messages go
// in through on_message, out through the Outbox, which must not call back. Not thread-safe. Borrows what it is made of.
//
// Nodes are facts: whoever brings them first is taken, others are acknowledged and dropped. A step's root of a block is
// divided by K and applied chunk by chunk as soon as it is there (with norms: as soon as their last round is over), and
// the block has its next version when all its chunks have. Every offered node is answered with Absorbed exactly once,
// when all of it is known and nothing that was asked of that offer is still under way; so is every node that was pushed
// without an offer (small blocks).
//
// Which gradient joins what is the consistency mode's affair (consistency/admission_rule.h). Without lockstep a push is
// applied when it comes: a block takes one at a time, chunk by chunk, and its version counts them.
//
// A frozen block has no gradient and no versions of its own: whichever is pulled is the one that it was loaded with.
//
// In place, values lie in memory that the worker of the same process reads, and only one version exists: there an offer
// also says that its worker no longer reads the block at that version.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "consistency/admission_rule.h"
#include "optim/optimizer.h"
#include "optim/vector_order.h"
#include "proto-free-wire/message.h"
#include "ps/admission.h"
#include "ps/block_state.h"
#include "ps/block_table.h"
#include "ps/row_server.h"
#include "ps/shard_server_options.h"
#include "ps/snapshot_sink.h"
#include "ps/step_watcher.h"
#include "ps/update_encoder.h"

namespace dtrain::ps {

class ShardServer {
 public:
  ShardServer(const BlockTable& table, uint32_t server, ShardServerOptions options, const optim::Optimizer& optimizer,
              wire::Outbox& outbox, SnapshotSink& snapshots);

  // Sets a block's newest values and slots (no slots: zero). For every block of this server before the first start(),
  // again before a later one where a rollback needs it.
  void load(uint32_t block, std::span<const float> values, std::span<const std::span<const float>> slots = {});
  // All blocks stand at `version`. What belonged to a step under way (offers, sums, parked pulls, rates) is forgotten;
  // the coordinator sends its Rates afterwards.
  void start(int64_t version);

  // Offer, NodeChunk, Pull, RowPull, RowPush from anyone, all others from the coordinator. An error: the sender breaks
  // the protocol and should be cut off; the state is as before. Blocks and rows are ignored before start().
  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload = {});
  // Forgets what the peer asked and offered, not what it gave.
  void peer_lost(wire::Rank peer);

  // Blocks and rows are at this version or the next.
  int64_t version() const { return step_; }
  std::span<const float> values(uint32_t block) const;  // the newest
  int64_t block_version(uint32_t block) const { return state(block).version; }
  // Of a block of this server, where they are kept; never written again. Null in place.
  std::shared_ptr<const Buffer> values_at(uint32_t block, int64_t version) const;
  const consistency::Mode& mode() const { return rule_->mode(); }
  uint32_t pushes_per_version() const { return pushes_; }   // micro-batches that a version is the mean of
  void watch(StepWatcher* watcher) { watcher_ = watcher; }  // outlives this; may be null
  const ShardCounters& counters() const { return counters_; }
  const Admission& admission() const { return admission_; }
  const SumPool& sums() const { return sums_; }                   // of blocks that are offered
  RowStore* rows() { return rows_ ? &rows_->store() : nullptr; }  // null: there are no sparse tables

 private:
  Status on(wire::Rank from, const wire::Offer& m);
  Status on(wire::Rank from, const wire::NodeChunk& m, ByteSpan payload);
  Status on(wire::Rank from, const wire::Pull& m);
  Status on_rows(wire::Rank from, const wire::Message& message, ByteSpan payload);
  Status on(wire::Rank from, const wire::Rates& m);
  Status on(wire::Rank from, const wire::NormFactor& m);
  Status on(wire::Rank from, const wire::VectorOrder& m);
  Status on(wire::Rank from, const wire::Snapshot& m);
  static tl::unexpected<Error> broken(wire::Rank from, const std::string& what);
  Status check_block(wire::Rank from, uint32_t block) const;
  Status check_node(wire::Rank from, int64_t step, uint32_t block, const Node& node) const;
  bool early(const BlockState& b, int64_t step) const;
  bool late(const BlockState& b, int64_t step) const {
    return rule_->fate(b.version, step) == consistency::Fate::kLate;
  }
  Status check_coordinator(wire::Rank from, const char* what) const;

  // Offers (shard_server_offers.cc).
  void absorbed(wire::Rank to, int64_t step, const BlockState& b, const Node& node, bool dropped);
  void settle(BlockState& b, Offers& offers, Offers::iterator first, Offers::iterator last);
  void settle_all(BlockState& b);
  void settle_around(BlockState& b, int64_t step, uint32_t chunk, const Node& node);
  bool take(BlockState& b, const OfferKey& key, BlockOffer& offer);
  void take_waiting(BlockState& b, Offers::iterator& at);
  void take_queued(BlockState& b);
  void take_next();
  void take_joining(BlockState& b, int64_t step, uint32_t chunk, const Node& node);
  void take_while_room();
  void take_all();
  void account(BlockState& b, int64_t step, uint32_t chunk);
  bool held_by_another(const BlockState& b, const BlockOffer& offer) const;
  void abandon(BlockState& b);
  size_t first_unfinished();
  bool known(const BlockState& b, int64_t step, const Node& node) const;

  // Sums and versions (shard_server_step.cc).
  StepSum& sum_of(BlockState& b, int64_t step) { return b.steps[place_of(b, step)]; }
  const StepSum& sum_of(const BlockState& b, int64_t step) const { return b.steps[place_of(b, step)]; }
  size_t place_of(const BlockState& b, int64_t step) const {
    return lockstep() ? static_cast<size_t>((step - b.version) / stride()) : 0;
  }
  void add(BlockState& b, int64_t step, uint32_t chunk, wire::Rank from, const Node& node, ChunkValues values,
           bool in_reserve);
  ChunkValues compensated(const BlockState& b, uint32_t chunk, wire::Rank from, const ChunkValues& values);
  bool may_apply(const BlockState& b) const;
  optim::UpdateContext update_context(ParameterIndex parameter, int64_t version) const;
  void apply(BlockState& b, uint32_t chunk, const float* root);
  void apply_ready();
  void apply_rows();
  void commit(BlockState& b);
  void finish_steps();
  void begin_step();
  void clear(BlockState& b, StepSum& sum);
  void next_step(BlockState& b);
  void not_finite(const BlockState& b, uint32_t chunk, const float* values, const char* what);
  std::vector<float*> slots_at(BlockState& b, size_t first);
  // Norms (shard_server_norms.cc).
  bool norms_known() const { return round_ == options_.norms.size(); }
  void measure(BlockState& b, uint32_t chunk);
  void measure_all();
  void send_norms();
  // Vectors of full-batch optimizers (shard_server_vectors.cc).
  Status check_order(wire::Rank from, const wire::VectorOrder& m) const;
  float* vector(BlockState& b, uint32_t id);
  void root_is_there();
  void carry_out(const wire::VectorOrder& m);
  void send_dots();
  void commit_point(bool accept);
  float* next_values(BlockState& b);
  // `held`: a version that the receiver has; -1: none.
  void send_block(wire::Rank to, BlockState& b, int64_t version, int64_t held);
  Result<ChunkValues> values_of(wire::Rank from, const BlockState& b, const wire::NodeChunk& m, ByteSpan payload,
                                Buffer& aligned) const;
  bool lockstep() const { return rule_->mode().lockstep; }
  // Without lockstep: about how many pushes a block has had by the end of so many steps.
  int64_t pushes_until(int64_t steps) const { return steps * options_.micro_batches / rule_->mode().push_every; }
  int64_t stride() const { return rule_->mode().stride; }
  SumPool& sums_of(const BlockState& b) { return b.block.pushed() ? pushed_sums_ : sums_; }
  BlockState& state(uint32_t block) { return blocks_[place_[block]]; }
  const BlockState& state(uint32_t block) const { return blocks_[place_[block]]; }

  const BlockTable& table_;
  const uint32_t server_;
  const ShardServerOptions options_;
  const std::shared_ptr<const consistency::AdmissionRule> rule_;
  const uint32_t pushes_;  // micro-batches that a version is the mean of
  const optim::Optimizer& optimizer_;
  wire::Outbox& outbox_;
  SnapshotSink& snapshots_;
  StepWatcher* watcher_ = nullptr;

  std::unique_ptr<RowServer> rows_;  // null: there are no sparse tables
  std::vector<BlockState> blocks_;   // of this server, ascending
  std::vector<uint32_t> place_;      // of a block id in blocks_, for this server's
  SumPool sums_, pushed_sums_;
  Admission admission_;
  std::set<uint32_t> waiting_;  // places of blocks with offers that lack room
  size_t first_unfinished_ = 0;

  bool started_ = false;
  bool failed_ = false;   // a root was not finite: nothing commits any more
  int64_t step_ = -1;     // under way
  size_t moving_ = 0;     // blocks that are not frozen
  size_t committed_ = 0;  // of these: at step_ + 1
  std::map<int64_t, double> rates_;
  // With norms, of step_:
  uint32_t round_ = 0;           // rounds that are over
  double factor_ = 1.0;          // on every gradient
  std::vector<double> ratios_;   // by parameter; or none
  uint32_t norm_chunks_ = 0;     // trainable ones of this server
  uint32_t measured_ = 0;        // of these: in the round under way
  std::vector<double> squares_;  // of the round under way: by what is measured, by chunk

  Buffer compensated_, decoded_;  // one chunk
  UpdateEncoder updates_;
  // With vectors, of step_:
  uint32_t orders_ = 0;                              // that were carried out
  size_t missing_roots_ = 0;                         // chunks
  std::vector<std::pair<uint32_t, uint32_t>> dots_;  // to be measured when the roots are there
  ShardCounters counters_;
};

}  // namespace dtrain::ps
