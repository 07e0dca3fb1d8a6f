#include "node/run_definition.h"

#include <fmt/format.h>

#include "config/canonical.h"
#include "config/load.h"
#include "config/network_spec.h"

namespace dtrain::node {

Result<RunDefinition> RunDefinition::read(const std::string& file, std::span<const std::string> overrides) {
  RunDefinition run;
  DTRAIN_TRY_ASSIGN(run.root, config::load_file(file, overrides));
  config::Diagnostics diagnostics;
  run.spec = config::read_run_spec(run.root, diagnostics);
  run.optimizer = optim::read_optimizer_spec(run.spec.optimizer, diagnostics);
  run.schedule = optim::read_schedule(run.spec.schedule ? &*run.spec.schedule : nullptr, diagnostics);
  const config::NetworkSpec network = config::expand_network(run.spec.network, diagnostics);
  run.network = graph::Network::build(network, diagnostics);
  DTRAIN_TRY(diagnostics.status());
  run.run_digest = sha256(config::canonical_text(run.root, config::keys_free_on_resume()));
  return run;
}

int64_t automatic_micro_batches(int64_t batch, int64_t workers) {
  for (int64_t k = workers; k < batch; ++k)
    if (batch % k == 0) return k;
  return batch;
}

}  // namespace dtrain::node
