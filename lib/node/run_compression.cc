#include "node/run_compression.h"

#include <fmt/format.h>

namespace dtrain::node {
RunCompression read_compression(const config::Value& root, const config::RunSpec& spec, const consistency::Mode& mode,
                                optim::OptimizerSpec& servers, config::Diagnostics& diagnostics) {
  using Use = compress::MethodSetting::Use;
  const config::TrainSpec& train = spec.train;
  RunCompression c;
  auto split = servers.optimizer->split_momentum();
  if (train.compression) {
    // After local steps it is differences of parameters that are pushed.
    const bool local = mode.stride > 1;
    c.gradients = compress::read_method(*train.compression, "train.compression",
                                        {.use = local ? Use::kParameters : Use::kGradients,
                                         .momentum = split.momentum,
                                         .nesterov = split.nesterov,
                                         .clip_norm = servers.clip_norm.has_value()},
                                        diagnostics);
  }
  if (train.compress_pulls)
    c.pulls =
        compress::read_method(*train.compress_pulls, "train.compress_pulls", {.use = Use::kParameters}, diagnostics);
  if (!c.any()) return c;

  const char* const key = c.gradients ? "compression" : "compress_pulls";
  const auto error = [&](const char* table, const char* where, const std::string& message) {
    const config::Value* const t = root.find(table);
    diagnostics.error(t ? t->position_of(where) : root.position(), message);
  };
  if (servers.optimizer->full_batch())
    error("train", key,
          fmt::format("'{}' in [train] is not for the optimizer lbfgs, whose gradients must be exact", key));
  if (train.reproducible.value_or(false))
    error("train", "reproducible",
          fmt::format("'reproducible' in [train] is true, but with '{}' the bits depend on which worker computes what; "
                      "take one of them out",
                      key));
  if (train.speculation.value_or(false))
    error("train", "speculation",
          fmt::format("'speculation' in [train] is not for '{}': a share may be computed twice only where both times "
                      "give the same",
                      key));
  if (c.pulls && (!mode.lockstep || mode.newest || mode.stride > 1))
    error(
        "train", "compress_pulls",
        fmt::format("'compress_pulls' in [train] is not for consistency = '{}': it sends what changes from one version "
                    "to the next, which only 'sync' and 'backup' take one by one",
                    mode.name));
  if (c.gradients && c.gradients->takes_momentum()) {
    if (!split.rest && !servers.optimizer->full_batch())
      error("optimizer", "type",
            "compression = 'dgc' in [train] applies the momentum of the optimizer sgd at the workers; for another "
            "optimizer choose 'topk'");
    if (servers.clip_norm)
      error("optimizer", "clip_norm",
            "'clip_norm' in [optimizer] is not for compression = 'dgc', whose gradients come late and in parts; write "
            "compression = { type = \"dgc\", clip_norm = … } in [train], which clips before that");
    if (split.rest) servers.optimizer = std::move(split.rest);
  }
  return c;
}

}  // namespace dtrain::node
