// The table [optimizer] of a run file, read.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/diagnostics.h"
#include "config/value.h"
#include "optim/optimizer.h"

namespace dtrain::optim {

struct OptimizerSpec {
  double rate = 0.0;                // lr, before the schedule's factor
  std::optional<double> clip_norm;  // the largest global L2 norm of the gradient
  std::shared_ptr<const Optimizer> optimizer;
};

// Mistakes go to `diagnostics`; the result is usable only if there is none.
OptimizerSpec read_optimizer_spec(const config::Value& table, config::Diagnostics& diagnostics,
                                  const std::string& name = "[optimizer]");

// What every gradient is multiplied with where clip_norm is set: PyTorch's clip_grad_norm_, min(1, clip / (norm +
// 1e-6)).
double clip_factor(double norm, double clip_norm);

}  // namespace dtrain::optim
