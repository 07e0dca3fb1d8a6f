#include "optim/optimizer_spec.h"

#include <algorithm>

#include "config/table_reader.h"
#include "optim/registry.h"

namespace dtrain::optim {

OptimizerSpec read_optimizer_spec(const config::Value& table, config::Diagnostics& diagnostics,
                                  const std::string& name) {
  config::TableReader reader(table, diagnostics, name);
  OptimizerSpec spec;
  spec.optimizer = OptimizerRegistry::instance().read(reader, "sgd");
  if (spec.optimizer->full_batch()) {  // it finds its own rates
    for (const char* key : {"lr", "clip_norm"}) {
      if (reader.has(key)) reader.error(key, fmt::format("'{}' in {} is not for 'lbfgs'", key, name));
      reader.also_known(key);
    }
  } else {
    spec.rate = reader.require_number("lr");
    if (reader.has("lr") && spec.rate <= 0) reader.error("lr", fmt::format("'lr' in {} must be above 0", name));
    const double clip_norm = reader.positive_number("clip_norm", 1.0);
    if (reader.has("clip_norm")) spec.clip_norm = clip_norm;
  }
  reader.finish();
  return spec;
}

double clip_factor(double norm, double clip_norm) { return std::min(1.0, clip_norm / (norm + 1e-6)); }

}  // namespace dtrain::optim
