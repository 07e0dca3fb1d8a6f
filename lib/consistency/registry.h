// The consistency modes, by name, and the key of the run file that chooses one.
#pragma once

#include <memory>

#include "config/registry.h"
#include "consistency/admission_rule.h"

namespace dtrain::consistency {

using RuleRegistry = config::Registry<AdmissionRule>;

// train.consistency: the name of a mode, or a table of its keys, `{ type = "stale", bound = 2 }`; null: synchronous.
// Mistakes go to `diagnostics`; never null.
std::shared_ptr<const AdmissionRule> read_rule(const config::Value* value, config::Diagnostics& diagnostics);

// Synchronous training, for those who have no run file.
std::shared_ptr<const AdmissionRule> synchronous();

}  // namespace dtrain::consistency
