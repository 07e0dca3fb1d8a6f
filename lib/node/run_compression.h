// How a run's gradients and parameters travel, and what cannot go together with that: said before anything starts.
#pragma once

#include <memory>

#include "compress/method.h"
#include "config/diagnostics.h"
#include "config/run_spec.h"
#include "consistency/admission_rule.h"
#include "optim/optimizer_spec.h"

namespace dtrain::node {

struct RunCompression {
  std::shared_ptr<const compress::Method> gradients, pulls;  // null: as they are

  bool any() const { return gradients || pulls; }
};

// `servers`: their optimizer, from which the momentum is taken where senders apply it. Mistakes go to `diagnostics`.
RunCompression read_compression(const config::Value& root, const config::RunSpec& spec, const consistency::Mode& mode,
                                optim::OptimizerSpec& servers, config::Diagnostics& diagnostics);

}  // namespace dtrain::node
