#include "node/coordinator_setup.h"

namespace dtrain::node {

bool ends_epoch(int64_t version, int64_t batch, int64_t samples) {
  return version > 0 && version * batch / samples > (version - 1) * batch / samples;
}

cluster::CoordinatorOptions coordinator_options(const RunDefinition& run, const StartPlan& plan,
                                                const std::string& checkpoint_folder) {
  const config::TrainSpec& train = run.spec.train;
  auto seconds = [](double s) { return static_cast<Nanoseconds>(s * kSecond); };
  cluster::CoordinatorOptions options;
  options.first_step = plan.first_step;
  options.steps = plan.steps;
  options.checkpoint = plan.checkpoint;
  options.micro_batches = plan.micro_batches;
  options.eval_micro_batches = plan.eval_micro_batches;
  options.eval_every = train.eval_every;
  if (train.eval_every == 0)
    options.eval_at = [batch = train.batch, samples = run.train->size()](int64_t version) {
      return ends_epoch(version, batch, samples);
    };
  options.checkpoint_every = train.checkpoint_every;
  options.checkpoint_folder = checkpoint_folder;
  const auto& optimizer = run.optimizer.optimizer;
  options.rule = run.rule;
  options.speculate = run.speculate;
  options.norms.rounds = run.norm_rounds();
  if (!run.rule->mode().single) options.norms.clip_norm = run.optimizer.clip_norm;
  if (optimizer->norm_need() != optim::NormNeed::kNone)
    options.norms.ratio = [optimizer](const ParameterInfo& p, double values, double other) {
      return optimizer->ratio(p, values, other);
    };
  options.threads = plan.threads;
  options.start_timeout = seconds(train.start_timeout);
  options.peer_timeout = seconds(train.peer_timeout);
  options.idle_timeout = seconds(train.idle_timeout);
  options.rate = [&run, steps = plan.steps](int64_t step) { return run.rate_at(step, steps); };
  if (const optim::LbfgsOptions* lbfgs = optimizer->full_batch()) options.lbfgs = *lbfgs;
  if (run.local_steps() || run.rule->mode().fetch_every > 1)
    options.worker_rate = [&run, steps = plan.steps](int64_t step) { return run.worker_rate_at(step, steps); };
  return options;
}

}  // namespace dtrain::node
