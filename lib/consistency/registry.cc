#include "consistency/registry.h"

namespace dtrain::consistency {

std::shared_ptr<const AdmissionRule> read_rule(const config::Value* value, config::Diagnostics& diagnostics) {
  if (!value) return synchronous();
  config::Value table = *value;
  if (value->is_string()) {  // the name alone
    table = config::Value(config::Value::Table{}, value->position());
    table.set("type", *value, value->position());
  }
  config::TableReader reader(table, diagnostics, "train.consistency");
  std::shared_ptr<const AdmissionRule> rule = RuleRegistry::instance().read(reader, "sync");
  reader.finish();
  return rule;
}

}  // namespace dtrain::consistency
