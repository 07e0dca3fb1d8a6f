// Local steps (local SGD: Stich 2018; DiLoCo: Douillard et al. 2023, arXiv 2311.08105): the owner of micro-batch k
// takes `steps` optimizer steps on the k-th micro-batches alone, from the version that all share; the servers average
// how far the K went, and give that to the outer optimizer as if it were a gradient. Every such round is a function of
// the version that it begins with (the inner optimizer's state begins anew each round), so that rounds are admitted
// like synchronous steps and have the same bits on any cluster.
#include "consistency/registry.h"

namespace dtrain::consistency {
namespace {

class Local final : public AdmissionRule {
 public:
  explicit Local(int64_t steps) : AdmissionRule({.name = "local", .stride = steps}) {}
  Fate fate(int64_t version, int64_t step) const override {
    if (step == version) return Fate::kJoins;
    return step < version ? Fate::kLate : Fate::kEarly;
  }
};

std::unique_ptr<AdmissionRule> make(config::TableReader& reader) {
  constexpr int64_t kMost = 10'000;  // the rates of two rounds are one message
  return std::make_unique<Local>(reader.require_integer("steps", 1, kMost));
}

[[maybe_unused]] const bool registered = RuleRegistry::instance().add("local", make);

}  // namespace
}  // namespace dtrain::consistency
