// The consistency mode of a run, and what cannot go together with it: said before anything starts.
#pragma once

#include <memory>

#include "config/diagnostics.h"
#include "config/run_spec.h"
#include "consistency/admission_rule.h"
#include "node/run_compression.h"
#include "optim/optimizer_spec.h"

namespace dtrain::node {

struct RunModes {
  std::shared_ptr<const consistency::AdmissionRule> rule;
  optim::OptimizerSpec optimizer;         // of the servers
  optim::OptimizerSpec worker_optimizer;  // of workers that take steps of their own; without optimizer: none do
  RunCompression compression;
  bool speculate = false;
};

// `given`: what [optimizer] says. Mistakes go to `diagnostics`.
RunModes read_modes(const config::Value& root, const config::RunSpec& spec, optim::OptimizerSpec given,
                    config::Diagnostics& diagnostics);

}  // namespace dtrain::node
