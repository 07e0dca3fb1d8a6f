// Bounded staleness (the stale synchronous parallel model: Ho et al. 2013; Bösen's ssp_consistency_controller): step c
// may be computed from any version from max(0, c − s) on, the newest there is. Versions are made as in synchronous
// training, of all micro-batches of a step, so that with s = 0 it is that (and reads exactly version c: a share that is
// computed again, when its worker is lost, must find the version that it was computed from). A worker waits a little
// for version c before it is content with an older one (fresh gradients are worth more than the time), and as long as
// it must for c − s.
#include <algorithm>

#include "consistency/registry.h"

namespace dtrain::consistency {
namespace {

class Stale final : public AdmissionRule {
 public:
  explicit Stale(int64_t bound)
      : AdmissionRule({.name = "stale", .same_bits = bound == 0, .window = bound + 1, .newest = bound > 0}),
        bound_(bound) {}
  Fate fate(int64_t version, int64_t step) const override {
    if (step < version) return Fate::kLate;
    return step <= version + bound_ ? Fate::kJoins : Fate::kEarly;
  }
  int64_t oldest(int64_t step) const override { return std::max<int64_t>(0, step - bound_); }

 private:
  const int64_t bound_;
};

std::unique_ptr<AdmissionRule> make(config::TableReader& reader) {
  constexpr int64_t kMost = 1'000;  // each step ahead may need memory for a whole gradient
  return std::make_unique<Stale>(reader.require_integer("bound", 0, kMost));
}

[[maybe_unused]] const bool registered = RuleRegistry::instance().add("stale", make);

}  // namespace
}  // namespace dtrain::consistency
