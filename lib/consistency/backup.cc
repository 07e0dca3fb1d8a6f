// Backup workers (Chen et al. 2016, "Revisiting Distributed Synchronous SGD"; TensorFlow's sync_replicas_optimizer): of
// the M micro-batches of a step the first N that come make the next version, their mean; what comes later is dropped.
#include "consistency/registry.h"

namespace dtrain::consistency {
namespace {

class Backup final : public AdmissionRule {
 public:
  explicit Backup(int64_t needed)
      : AdmissionRule({.name = "backup", .same_bits = false, .needed = needed, .single = true}) {}
  Fate fate(int64_t version, int64_t step) const override {
    if (step == version) return Fate::kJoins;
    return step < version ? Fate::kLate : Fate::kEarly;
  }
};

std::unique_ptr<AdmissionRule> make(config::TableReader& reader) {
  return std::make_unique<Backup>(reader.require_integer("needed", 1));
}

[[maybe_unused]] const bool registered = RuleRegistry::instance().add("backup", make);

}  // namespace
}  // namespace dtrain::consistency
