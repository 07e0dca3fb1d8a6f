#include "node/run_modes.h"

#include <fmt/format.h>

#include "consistency/registry.h"
#include "optim/weight_average.h"

namespace dtrain::node {
namespace {

class Checker {
 public:
  Checker(const config::Value& root, const config::RunSpec& spec, config::Diagnostics& diagnostics)
      : root_(root), spec_(spec), diagnostics_(diagnostics) {}

  // At a key of [train].
  void error(const char* key, const std::string& message) {
    const config::Value* at = root_.find("train") ? root_.find("train")->find(key) : nullptr;
    diagnostics_.error(at ? at->position() : root_.position(), message);
  }

  void check(const consistency::Mode& mode, const optim::OptimizerSpec& given) {
    const config::TrainSpec& train = spec_.train;
    if (train.reproducible.value_or(false) && !mode.same_bits)
      error("reproducible",
            fmt::format("'reproducible' in [train] is true, but consistency = '{}' makes no promise of the "
                        "same bits; take one of them out",
                        mode.name));
    if (train.reproducible.value_or(false) && train.allow_different_arithmetic)
      error("reproducible",
            "'reproducible' in [train] is true, but allow_different_arithmetic gives up the same bits; take one of "
            "them out");
    if (train.speculation.value_or(false) && (!mode.same_bits || !mode.lockstep || mode.newest))
      error("speculation",
            fmt::format(
                "'speculation' in [train] is not for consistency = '{}': a share may be computed twice only where "
                "both times give the same",
                mode.name));
    if (mode.name == "sync") return check_outer(mode);
    if (given.optimizer->full_batch())
      error("consistency", fmt::format("consistency = '{}' in [train] is not for the optimizer lbfgs", mode.name));
    if ((!mode.lockstep || mode.stride > 1) && given.optimizer->norm_need() != optim::NormNeed::kNone)
      error(
          "consistency",
          fmt::format("consistency = '{}' in [train] is not for optimizers that need the norms of a whole step (lars, "
                      "lamb)",
                      mode.name));
    if (mode.needed > 1 && train.micro_batch && mode.needed > train.batch / *train.micro_batch)
      error("consistency",
            fmt::format("'needed' = {} pushes of a step, but batch = {} in micro-batches of {} makes only {}",
                        mode.needed, train.batch, *train.micro_batch, train.batch / *train.micro_batch));
    if (mode.stride > 1 && train.steps && *train.steps % mode.stride != 0)
      error("steps", fmt::format("'steps' = {} in [train] must be a multiple of the {} local steps of a round",
                                 *train.steps, mode.stride));
    check_outer(mode);
  }

 private:
  void check_outer(const consistency::Mode& mode) {
    if (spec_.outer_optimizer && mode.name != "local")
      diagnostics_.error(spec_.outer_optimizer->position(), "[outer_optimizer] is for consistency = 'local' only");
  }

  const config::Value& root_;
  const config::RunSpec& spec_;
  config::Diagnostics& diagnostics_;
};

// DiLoCo's: SGD with Nesterov momentum 0.9 at rate 0.7.
optim::OptimizerSpec outer_optimizer(const config::RunSpec& spec, config::Diagnostics& diagnostics) {
  if (spec.outer_optimizer) return optim::read_optimizer_spec(*spec.outer_optimizer, diagnostics, "[outer_optimizer]");
  config::Value table = config::Value(config::Value::Table{}, config::Position());
  const config::Position at;
  table.set("type", config::Value(std::string("sgd"), at), at);
  table.set("lr", config::Value(0.7, at), at);
  table.set("momentum", config::Value(0.9, at), at);
  table.set("nesterov", config::Value(true, at), at);
  return optim::read_optimizer_spec(table, diagnostics, "[outer_optimizer]");
}

}  // namespace

RunModes read_modes(const config::Value& root, const config::RunSpec& spec, optim::OptimizerSpec given,
                    config::Diagnostics& diagnostics) {
  RunModes modes;
  modes.rule = consistency::read_rule(spec.train.consistency ? &*spec.train.consistency : nullptr, diagnostics);
  const consistency::Mode& mode = modes.rule->mode();
  Checker(root, spec, diagnostics).check(mode, given);
  modes.speculate = spec.train.speculation.value_or(mode.same_bits && !mode.newest);
  modes.optimizer = std::move(given);
  if (mode.name == "local") {
    modes.worker_optimizer = std::move(modes.optimizer);
    modes.optimizer = outer_optimizer(spec, diagnostics);
    if (modes.optimizer.optimizer->full_batch())
      diagnostics.error(spec.outer_optimizer->position(), "[outer_optimizer] cannot be lbfgs");
  }
  modes.compression = read_compression(root, spec, mode, modes.optimizer, diagnostics);
  if (modes.compression.any()) modes.speculate = false;  // another worker would send something else
  if (spec.train.ema > 0 && !modes.optimizer.optimizer->full_batch())
    modes.optimizer.optimizer = optim::with_weight_average(std::move(modes.optimizer.optimizer), spec.train.ema);
  return modes;
}

}  // namespace dtrain::node
