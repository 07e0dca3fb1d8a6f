#include "node/start_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/checkpoint_folder.h"
#include "config/canonical.h"
#include "config/load.h"
#include "config/task_device.h"

namespace dtrain::node {
namespace {

// The first place at which two configurations differ, for a person; "" where they differ only in what may change.
std::string first_change(const config::Value* then, const config::Value* now, const std::string& path) {
  const auto free = config::keys_free_on_resume();
  if (std::find(free.begin(), free.end(), path) != free.end()) return "";
  auto text = [](const config::Value* value) { return value ? config::canonical_text(*value) : "(not set)"; };
  if (then && now && then->is_table() && now->is_table()) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const config::Entry& e : then->as_table())
      if (auto change = first_change(&e.value, now->find(e.key), prefix + e.key); !change.empty()) return change;
    for (const config::Entry& e : now->as_table())
      if (auto change = first_change(then->find(e.key), &e.value, prefix + e.key); !change.empty()) return change;
    return "";
  }
  if (then && now && then->is_array() && now->is_array()) {
    const auto &a = then->as_array(), &b = now->as_array();
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
      if (auto change = first_change(i < a.size() ? &a[i] : nullptr, i < b.size() ? &b[i] : nullptr,
                                     fmt::format("{}[{}]", path, i));
          !change.empty())
        return change;
    return "";
  }
  return text(then) == text(now) ? "" : fmt::format("{}: then {}, now {}", path, text(then), text(now));
}

Status same_run(const RunDefinition& run, const checkpoint::Manifest& manifest, const std::string& folder) {
  if (manifest.run_digest == to_hex(run.run_digest)) return {};
  std::string change;
  if (const auto then = config::load_text(manifest.config, folder)) {
    const config::Value before = config::without_devices(*then), now = config::without_devices(run.root);
    change = first_change(&before, &now, "");
  }
  return fail(
      ExitCode::kUsage,
      fmt::format("{} belongs to another run file; only steps or epochs, the intervals of log and checkpoints and the "
                  "cluster may change on resume\n  {}",
                  folder, change));
}

Status take_up(const RunDefinition& run, const OutFolder& out, FileSystem& files, Log& log, StartPlan& plan) {
  const checkpoint::CheckpointFolder folder(files, out.checkpoints(), log);
  DTRAIN_TRY_ASSIGN(const auto manifest, folder.newest());
  if (!manifest)
    return fail(ExitCode::kCheckpoint,
                fmt::format("--resume: {} holds no complete checkpoint to go on from; start the run "
                            "again without --resume, with another --out or after removing this one",
                            out.checkpoints()));
  plan.checkpoint = folder.path_of(manifest->step);
  DTRAIN_TRY(same_run(run, *manifest, plan.checkpoint));
  plan.first_step = manifest->step;
  plan.micro_batches = static_cast<uint32_t>(manifest->micro_batches);
  plan.threads = static_cast<uint32_t>(manifest->threads);
  if (run.spec.train.batch % manifest->micro_batches != 0)
    return fail(ExitCode::kCheckpoint, fmt::format("{}: {} micro-batches do not divide a batch of {}", plan.checkpoint,
                                                   manifest->micro_batches, run.spec.train.batch));
  if (plan.first_step > plan.steps)
    return fail(ExitCode::kUsage, fmt::format("{} is after step {}, but the run has {} steps now", plan.checkpoint,
                                              plan.first_step, plan.steps));
  return {};
}

// With a delay of one version, heavy-ball momentum β on a curvature of L is stable for lr · L < 1 − β only (the roots
// of z² − (1 + β)z + β + lr · L lie within the unit circle), where without delay it is for lr · L < 2(1 + β).
void warn_of_momentum(const RunDefinition& run, int64_t workers, Log& log) {
  constexpr double kMuch = 0.5;
  const consistency::Mode& mode = run.rule->mode();
  const config::Value* key = run.spec.optimizer.find("momentum");
  const double momentum = key && key->is_float() ? key->as_float() : 0.0;
  if (momentum < kMuch) return;
  // What a method remembers of a gradient comes with later ones. Where steps are a worker's own, it is their outcome
  // that is compressed, and the momentum is over.
  const auto& method = run.compression.gradients;
  if (method && method->state_arrays() > 0 && !method->takes_momentum() && !run.local_steps()) {
    const config::Value& name = *run.spec.train.compression;
    log.warning(
        "momentum = {} goes ill with what train.compression = '{}' sends later, which acts as gradients of older "
        "versions do: training may diverge. A lower momentum or lr helps, or 'dgc', which is made for momentum",
        momentum, name.is_table() ? name.find("type")->as_string() : name.as_string());
  }
  if (!mode.newest || workers == 1) return;
  log.warning(
      "momentum = {} goes ill with gradients of older versions (train.consistency = '{}'): a delay of one version "
      "makes "
      "training unstable at a learning rate {:.0f} times lower than without. A lower momentum or lr helps",
      momentum, mode.name, 2 * (1 + momentum) / (1 - std::min(momentum, 0.999)));
}

}  // namespace

Status can_start(const RunDefinition& run, int64_t workers) {
  const int64_t needed = run.rule->mode().needed, there = micro_batches_of(run.spec.train, workers);
  if (needed <= 1 || needed <= there) return {};
  return fail(ExitCode::kUsage,
              fmt::format("train.consistency needs {} pushes a step, but a step has only {} micro-batches: set "
                          "train.micro_batch, or 'needed' to at most {}",
                          needed, there, there));
}

Result<StartPlan> plan_start(const RunDefinition& run, int64_t workers, const OutFolder& out, bool resume,
                             FileSystem& files, Log& log, bool split) {
  const config::TrainSpec& train = run.spec.train;
  StartPlan plan;
  plan.steps = run.total_steps();
  plan.threads = static_cast<uint32_t>(train.threads.value_or(0));
  plan.micro_batches = static_cast<uint32_t>(micro_batches_of(train, workers));
  if (!resume) DTRAIN_TRY(can_start(run, workers));
  if (resume) {
    DTRAIN_TRY(take_up(run, out, files, log, plan));
  } else {
    DTRAIN_TRY(out.create(files));
  }
  if (run.test) {
    const int64_t micro = train.batch / plan.micro_batches;
    plan.eval_micro_batches = static_cast<uint32_t>((run.test->size() + micro - 1) / micro);
  }
  warn_of_momentum(run, workers, log);
  if (plan.micro_batches < workers && split)
    log.warning(
        "a step has only {} micro-batch{} for a network on {} workers, which will wait for each other: set "
        "train.micro_batch",
        plan.micro_batches, plan.micro_batches == 1 ? "" : "es", workers);
  else if (plan.micro_batches < workers)
    log.warning("{} of {} workers will idle: a step has only {} micro-batches", workers - plan.micro_batches, workers,
                plan.micro_batches);
  return plan;
}

}  // namespace dtrain::node
