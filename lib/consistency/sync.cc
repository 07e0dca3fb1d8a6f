// Synchronous: step t is computed from version t, and makes version t + 1 of all its micro-batches.
#include "consistency/registry.h"

namespace dtrain::consistency {
namespace {

class Sync final : public AdmissionRule {
 public:
  Sync() : AdmissionRule({.name = "sync"}) {}
  Fate fate(int64_t version, int64_t step) const override {
    if (step == version) return Fate::kJoins;
    return step < version ? Fate::kLate : Fate::kEarly;
  }
};

[[maybe_unused]] const bool registered = RuleRegistry::instance().add(
    "sync", [](config::TableReader&) -> std::unique_ptr<AdmissionRule> { return std::make_unique<Sync>(); });

}  // namespace

std::shared_ptr<const AdmissionRule> synchronous() { return std::make_shared<Sync>(); }

}  // namespace dtrain::consistency
