// The worker's protocol of all modes in which blocks go from version to version step by step: synchronous, with backup
// workers, with bounded staleness, with local steps (see consistency/).
//
// What must hold: gradients labelled with step t were computed from a version of every block that the mode allows for
// t, in synchronous training t itself (a frozen block is every version, and pulled once). So a block's memory never
// turns to another version while a work that still reads it is in progress, that is until its gradient is handed in,
// and the compute side reads a parameter only when parameter_ready says so.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/known_rates.h"
#include "worker/offered_gradients.h"
#include "worker/row_exchange.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {

class SyncProtocol final : public WorkerProtocol {
 public:
  SyncProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox);

  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload = {}) override;
  std::optional<Work> next_work() const override;
  bool parameter_ready(ParameterIndex parameter, int64_t step) const override;
  void hurry() override;
  bool cancelled(const Work& work) const override;
  void started(const Work& work) override;
  void metrics(const Work& work, const Metrics& metrics) override;
  void gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) override;
  void finished(const Work& work) override;
  double rate(int64_t step) const override { return rates_.at(step); }
  size_t unanswered(const Work& work) const override { return offers_.unanswered(work) + rows_.unanswered(work); }
  // Where each push is one micro-batch's, servers have room for whatever comes (ps/admission.h).
  size_t held_sets(const Work& work) const override { return mode().single ? 0 : offers_.open_works(work.step); }
  void pull_rows(const Work& work, std::span<const uint64_t> rows, std::span<float* const> into) override;
  bool rows_ready() const override { return rows_.arrived(); }
  void push_rows(const Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                 std::span<const float* const> gradients) override;
  size_t row_pushes() const override { return rows_.unanswered(); }
  int64_t step() const override { return step_; }

 private:
  // What parameter memory holds of a block.
  struct Held {
    int64_t wanted = -1;    // the step that it is wanted for
    int64_t version = -1;   // that is there, or on its way; of a frozen block the one that was asked for
    uint32_t missing = 0;   // chunks of it that have not come
    bool written = false;   // some of it has: `previous` is overwritten
    int64_t previous = -1;  // complete in memory as long as nothing of `version` was written
    std::array<int64_t, kBlockChunks> chunks = {-1, -1, -1, -1};  // versions of them in memory
  };

  Status on(wire::Rank from, const wire::Assign& m);
  Status on(wire::Rank from, const wire::WorkerRates& m);
  Status on(wire::Rank from, const wire::Absorbed& m);
  Status on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload);
  Status on(wire::Rank from, const wire::Gone& m);
  Status on(wire::Rank from, const wire::RowsGone& m);
  Status on(wire::Rank from, const wire::RowsTaken& m);
  // Some block, or the rows of a server, have had this version.
  void heard_of(int64_t newest);
  void answered(const std::optional<Work>& work);
  Status check_block(wire::Rank from, uint32_t block, const char* message) const;

  const consistency::Mode& mode() const { return rule_->mode(); }
  uint32_t micro_batches(wire::StepKind kind) const;
  // What is to be done of a step: the own share, and when that is done the straggler's.
  std::vector<ps::Node> remaining(const wire::Assign& assign, int64_t step) const;
  // To another step: at once, or when the work in progress has been left.
  void move(wire::StepKind kind, int64_t step);
  // Wants every block for step_, and pulls what memory does not hold.
  void want();
  void want(uint32_t block, int64_t step);
  void pull(uint32_t block, int64_t least);
  // All blocks are there.
  void complete();
  // On to the next step, when the share of this one is done.
  void advance();
  // Tells the coordinator of a work that all servers have taken.
  void say_done(const Work& work);

  const ps::BlockTable& table_;
  const Setup setup_;
  const std::shared_ptr<const consistency::AdmissionRule> rule_;
  wire::Outbox& outbox_;
  OfferedGradients offers_;
  KnownRates rates_;
  RowExchange rows_;
  std::optional<wire::Assign> assign_;
  wire::StepKind kind_ = wire::StepKind::kTrain;
  int64_t step_ = -1;
  // All blocks are known to have had this version, so that no earlier step needs anybody. step_ is at most as far ahead
  // as the mode allows.
  int64_t floor_ = -1;
  std::optional<Work> current_;
  bool current_cancelled_ = false;
  bool want_due_ = false;  // step_ changed under a work in progress
  // Nothing else is known to be done of its step: so each block is wanted for the next one as soon as its gradient has
  // left, while others are still computed.
  bool lets_go_ = false;
  bool ahead_ = false;  // some block is wanted for another step than step_
  std::map<std::pair<int64_t, wire::StepKind>, std::vector<ps::Node>> done_;
  std::set<Work> answers_due_;  // finished, and not yet taken by all servers
  std::vector<Held> held_;
  uint32_t incomplete_ = 0;  // blocks that are wanted for step_, with chunks missing
};

}  // namespace dtrain::worker
