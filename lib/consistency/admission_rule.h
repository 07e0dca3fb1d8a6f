// One consistency mode: which gradients join which version of a block, and from which version a gradient may be
// computed. What makes the modes different from each other is here; shard server, worker and coordinator are the same
// for all. Immutable and pure; one file a mode, which registers itself and reads its keys from `train.consistency`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dtrain::consistency {

enum class Fate {
  kJoins,  // the sum of its step
  kLate,   // what it was for is done: acknowledged, dropped, counted
  kEarly,  // its step cannot have begun: ignored
};

// What the roles must know of a mode. The defaults are synchronous training.
struct Mode {
  std::string name;
  // The result depends on the run file, the data and the seed alone.
  bool same_bits = true;
  // All blocks go from version to version step by step. Otherwise each goes by itself, by one with every push.
  bool lockstep = true;
  // A version is made of so many pushes of its step, those that come first. 0: of all micro-batches, summed along the
  // tree.
  int64_t needed = 0;
  // Steps that a server sums at the same time: the one under way and those that workers may be ahead.
  int64_t window = 1;
  // Workers read the newest version there is, if AdmissionRule::oldest allows it, and not exactly their step's.
  bool newest = false;
  // Workers push one micro-batch at a time, never a sum over several, and clip_norm is for each push.
  bool single = false;
  // Steps from one version to the next: what a worker does by itself in between.
  int64_t stride = 1;

  // Without lockstep:
  int64_t fetch_every = 1, push_every = 1;  // micro-batches of a worker
  double delay_compensation = 0.0;          // λ
};

class AdmissionRule {
 public:
  explicit AdmissionRule(Mode mode) : mode_(std::move(mode)) {}
  virtual ~AdmissionRule() = default;

  const Mode& mode() const { return mode_; }
  // Of a gradient for `step` at a block of `version`. Without lockstep `step` is the version that the gradient was
  // computed from.
  virtual Fate fate(int64_t version, int64_t step) const = 0;
  // The lowest version that step `step` may be computed from.
  virtual int64_t oldest(int64_t step) const { return step; }

 private:
  const Mode mode_;
};

}  // namespace dtrain::consistency
