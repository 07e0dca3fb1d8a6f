// Computes a Work: the micro-batches of one node of the tree, forward and backward, folded along the tree so that one
// sum leaves for each parameter, while backward is still running on the layers before.
//
// One thread. The fold is a binary counter: one running set of gradients and at most ⌈log₂ n⌉ partial sums for a node
// of n micro-batches; left + right is the only addition, so that the bits do not depend on who computed what.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/executable.h"
#include "worker/engine/batch_feed.h"
#include "worker/engine/gradient_pool.h"
#include "worker/engine/known_versions.h"
#include "worker/engine/op_profile.h"
#include "worker/engine/own_steps.h"
#include "worker/engine/row_lookup.h"
#include "worker/engine/step_port.h"

namespace dtrain::worker {

class StepEngine {
 public:
  struct Setup {
    uint64_t seed = 0;
    uint32_t micro_batches = 0;                      // K
    uint32_t eval_micro_batches = 0;                 // 0: no evaluations
    std::vector<const float*> values;                // parameter memory, plain
    std::unique_ptr<graph::Executable> train, eval;  // eval may be null
    OpProfile* profile = nullptr;                    // of training
    std::unique_ptr<RowLookup> rows = nullptr;       // where there are sparse tables

    // What a mode without a gradient for every step and from every worker wants (consistency/).
    std::optional<double> clip_norm;                    // of each micro-batch's gradient
    int64_t own_steps = 1;                              // of a round
    std::shared_ptr<const optim::Optimizer> optimizer;  // of these steps; null: there are no rounds
    bool same_step = false;                             // dropout draws the same in every step
    bool any_version = false;                           // parameters may differ from work to work of one step
    bool descends = false;                              // between fetches, on the parameter memory itself
    std::vector<float*> memory;                         // that memory, where it descends
    size_t more_sets = 0;                               // of gradients, beyond what a node needs
  };
  // `parameters`, `feed`, `pool` and the memory outlive the engine.
  StepEngine(std::span<const ParameterInfo> parameters, Setup setup, BatchFeed& feed, GradientPool& pool);

  // An error of the port is handed on; everything else is the data's.
  Status run(const Work& work, StepPort& port);

  // How many gradient sets a node of this size needs at the same time.
  static size_t sets_needed(uint32_t node_size) { return ps::fold_depth(node_size) + 1; }

 private:
  // A finished subtree of the node under way: what its micro-batches sum to.
  struct Partial {
    GradientPool::Lease gradients;  // null in an evaluation
    Metrics metrics;
  };
  class Backward;

  Status run_micro_batch(const Work& work, uint32_t micro_batch, StepPort& port, std::vector<Partial>& partials);
  Status run_round(const Work& work, uint32_t micro_batch, StepPort& port, std::vector<Partial>& partials);
  void keep(Partial running, Metrics metrics, uint32_t merges, std::vector<Partial>& partials);
  // Gradients do not leave as they come, but when all are there.
  bool holds() const { return setup_.clip_norm || setup_.descends || accrues_; }
  // Clips, descends, adds what was held back; whether the sum leaves now.
  bool settle(const Work& work, std::span<const graph::ParameterOutput> outputs, StepPort& port,
              const Partial& running);
  // Where what a micro-batch makes of each parameter goes, those of sparse tables included.
  std::span<float* const> outputs(const Partial& running);
  bool sparse(ParameterIndex p) const { return parameters_[static_cast<size_t>(p)].kind == ParameterKind::kSparse; }
  Result<GradientPool::Lease> lease(const Work& work, StepPort& port);
  // How many subtrees of the node, leaves aside, end with this micro-batch: so many additions follow it.
  uint32_t closing(const Work& work, uint32_t micro_batch) const;

  std::span<const ParameterInfo> parameters_;
  Setup setup_;
  BatchFeed& feed_;
  GradientPool& pool_;
  KnownVersions versions_;
  std::vector<float*> outputs_;  // where there are sparse tables
  std::optional<OwnSteps> own_;
  bool accrues_ = false;         // some works do not push
  GradientPool::Lease accrued_;  // the sum of those
};

}  // namespace dtrain::worker
