// One simulated run: its network, its cluster, what goes wrong in it; all from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "consistency/admission_rule.h"
#include "optim/optimizer.h"
#include "tensor/parameter.h"

namespace dtrain::sim {

// Mistakes that the harness makes on purpose, to prove that the simulation would find them.
enum class Sabotage {
  kNone,
  kLostMetrics,      // one metric node never arrives
  kWrongMicroBatch,  // a node holds the gradient of another micro-batch than it says
  kCountedTwice,     // a micro-batch is twice in its node
  kFlatSum,          // a node is summed from left to right instead of along the tree
  kStaleParameters,  // a chunk of parameters carries the values of the version before
  kOverwritten,      // parameter memory changes under a work
  kHalfBlock,        // the second chunk of a node's block comes as zeros
  kOtherFactor,      // one server clips with another factor
  kOtherRate,        // one server moves with another learning rate
  kLateSnapshot,     // a snapshot is taken when it is written, not when it was ordered
  kSilentLoss,       // the coordinator is not told of a lost worker
  kLostAssignment,   // an assignment to a survivor never arrives
};
struct SabotageName {
  Sabotage sabotage;
  const char* name;
};
extern const std::vector<SabotageName> kSabotages;  // all but kNone

struct Fault {
  enum class Kind { kKill, kFreeze, kLeave };
  Kind kind = Kind::kKill;
  uint32_t rank = 0;
  Instant at = 0;
  std::optional<Nanoseconds> back_after;  // absent: for good
};

struct Scenario {
  uint64_t seed = 0;
  Sabotage sabotage = Sabotage::kNone;

  std::vector<ParameterInfo> parameters;
  int64_t steps = 1;
  uint32_t micro_batches = 1, eval_micro_batches = 0;
  int64_t eval_every = 0, checkpoint_every = 0;
  std::optional<double> clip_norm;
  optim::NormNeed norm_need = optim::NormNeed::kNone;

  std::shared_ptr<const consistency::AdmissionRule> rule;  // null: synchronous
  // How far a value may be from the truth, where pushes are added in the order of their coming. 0: the same bits.
  double tolerance = 0;

  uint32_t servers = 1, workers = 1;
  bool beside = false;           // servers share the tasks of the first workers
  std::vector<Instant> joiners;  // when further workers come, that nobody waits for; the last ranks

  Nanoseconds delay_most = kMillisecond, compute_most = 10 * kMillisecond;
  uint32_t speculate_percent = 0;  // of the assignments that tell a worker to compute everything
  bool speculate = false;          // of the coordinator: others compute a slow worker's share as well
  uint32_t slow_rank = 0, slow_factor = 1;
  std::vector<Fault> faults;  // of workers that hold no parameters
  std::optional<Instant> interrupt_at;
  std::optional<Fault> server_kill;

  uint32_t listed() const { return beside ? (workers > servers ? workers : servers) : servers + workers; }
  uint32_t tasks() const { return listed() + static_cast<uint32_t>(joiners.size()); }
  bool serves(uint32_t rank) const { return rank < servers; }
  bool computes(uint32_t rank) const { return beside || rank >= servers; }
};

Scenario random_scenario(uint64_t seed);
std::string describe(const Scenario& scenario);

}  // namespace dtrain::sim
