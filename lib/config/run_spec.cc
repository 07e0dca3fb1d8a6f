#include "config/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "config/table_reader.h"

namespace dtrain::config {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 31;
constexpr int64_t kMaxThreads = 4096;
// Nobody gets there, and a sample's number in the run, at most kMaxBatch times as much, fits 64 bits.
constexpr int64_t kMaxSteps = 4'000'000'000;
constexpr double kMaxEpochs = 1e9;
constexpr double kMaxSeconds = 1e8;

// "24 or 30": the divisors of `batch` on both sides of `wrong`.
std::string nearest_divisors(int64_t batch, int64_t wrong) {
  if (wrong >= batch) return fmt::format("{}", batch);
  int64_t below = wrong, above = wrong;
  while (batch % below != 0) --below;
  while (batch % above != 0) ++above;
  return fmt::format("{} or {}", below, above);
}

// What 'steps' is where a run file says neither that nor 'epochs'; nothing where it must say so.
std::optional<int64_t> standard_steps(const Value* optimizer) {
  const Value* type = optimizer ? optimizer->find("type") : nullptr;
  if (type && type->is_string() && type->as_string() == "lbfgs") return 100;  // it ends by itself when it has converged
  return std::nullopt;
}

TrainSpec read_train(const Value& table, std::optional<int64_t> standard_steps, Diagnostics& diagnostics) {
  TableReader r(table, diagnostics, "[train]");
  TrainSpec t;
  const size_t errors_before = diagnostics.errors().size();
  t.batch = r.require_integer("batch", 1, kMaxBatch);
  const bool batch_good = diagnostics.errors().size() == errors_before;
  t.micro_batch = r.integer_or_auto("micro_batch", 1, kMaxBatch);
  if (batch_good && t.micro_batch && t.batch % *t.micro_batch != 0) {
    r.error("micro_batch", fmt::format("micro_batch = {} does not divide batch = {}; the nearest that do: {}",
                                       *t.micro_batch, t.batch, nearest_divisors(t.batch, *t.micro_batch)));
  }
  t.threads = r.integer_or_auto("threads", 1, kMaxThreads);
  if (r.has("steps")) t.steps = r.integer("steps", 1, 1, kMaxSteps);
  if (r.has("epochs")) t.epochs = r.positive_number("epochs", 1);
  if (t.epochs.value_or(0) > kMaxEpochs)
    r.error("epochs", fmt::format("'epochs' in [train] must be at most {:.0f}, got {}", kMaxEpochs, *t.epochs));
  r.also_known("steps");
  r.also_known("epochs");
  if (t.steps && t.epochs) r.error("epochs", "'steps' and 'epochs' exclude each other in [train]; remove one");
  if (!t.steps && !t.epochs) t.steps = standard_steps;
  if (!t.steps && !t.epochs) r.error("", "[train] needs 'steps' or 'epochs'");
  t.log_every = r.integer("log_every", t.log_every, 1, kMaxSteps);
  t.checkpoint_every = r.integer("checkpoint_every", t.checkpoint_every, 0, kMaxSteps);
  t.eval_every = r.integer("eval_every", t.eval_every, 0, kMaxSteps);
  t.keep_checkpoints = r.integer("keep_checkpoints", t.keep_checkpoints, 1, kMaxSteps);
  t.winograd = r.boolean("winograd", true);
  t.isa = r.string("isa", "");
  const std::array<std::string, 3> precisions = {"fp32", "bf16", "fp16"};
  t.precision = r.choice("precision", "fp32", precisions);
  t.ema = r.number("ema", t.ema, 0.0, 1.0);
  if (t.ema == 1.0) r.error("ema", "'ema' in [train] must be below 1: an average that never moves");
  if (const Value* mode = r.value("consistency")) t.consistency = *mode;
  if (const Value* method = r.value("compression")) t.compression = *method;
  if (const Value* method = r.value("compress_pulls")) t.compress_pulls = *method;
  if (r.has("speculation")) t.speculation = r.boolean("speculation", false);
  if (r.has("reproducible")) t.reproducible = r.boolean("reproducible", true);
  r.also_known("speculation");
  r.also_known("reproducible");
  t.allow_different_arithmetic = r.boolean("allow_different_arithmetic", false);
  for (auto [key, seconds] : {std::pair("start_timeout", &t.start_timeout), std::pair("peer_timeout", &t.peer_timeout),
                              std::pair("idle_timeout", &t.idle_timeout)}) {
    *seconds = r.number(key, *seconds, 0.001, kMaxSeconds);
  }
  r.finish();
  return t;
}

// The name becomes a folder's.
bool good_name(const std::string& name) {
  if (name.empty() || name[0] == '.') return false;
  for (const char c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

}  // namespace

int64_t TrainSpec::total_steps(int64_t samples) const {
  if (steps) return *steps;
  const double steps_of_epochs =
      std::ceil(epochs.value_or(0) * static_cast<double>(samples) / static_cast<double>(batch));
  return static_cast<int64_t>(std::min(steps_of_epochs, static_cast<double>(kMaxSteps)));
}

RunSpec read_run_spec(const Value& root, Diagnostics& diagnostics) {
  TableReader r(root, diagnostics, "the run file");
  RunSpec spec;
  spec.name = r.string("name", std::filesystem::path(root.position().file()).stem().string());
  if (r.has("name") && !good_name(spec.name)) {
    r.error("name", fmt::format("the name '{}' cannot be that of a folder", spec.name));
  }
  spec.seed = static_cast<uint64_t>(r.integer("seed", 1, 0));
  if (const Value* data = r.require_table("data")) {
    TableReader d(*data, diagnostics, "[data]");
    if (const Value* train = d.require_table("train")) spec.data_train = *train;
    if (const Value* test = d.table("test")) spec.data_test = *test;
    if (const Value* predict = d.table("predict")) spec.data_predict = *predict;
    d.finish();
  }
  const Value* const train = r.require_table("train");
  const Value* const optimizer = r.require_table("optimizer");
  if (train) spec.train = read_train(*train, standard_steps(optimizer), diagnostics);
  if (optimizer) spec.optimizer = *optimizer;
  if (const Value* outer = r.table("outer_optimizer")) spec.outer_optimizer = *outer;
  if (const Value* schedule = r.table("schedule")) spec.schedule = *schedule;
  if (const Value* network = r.require_table("network")) spec.network = *network;
  r.finish();
  return spec;
}

std::span<const std::string> keys_free_on_resume() {
  static const std::array<std::string, 12> kKeys = {"name",
                                                    "data.predict",
                                                    "data.train.threads",
                                                    "data.test.threads",
                                                    "train.steps",
                                                    "train.epochs",
                                                    "train.log_every",
                                                    "train.checkpoint_every",
                                                    "train.keep_checkpoints",
                                                    "train.start_timeout",
                                                    "train.peer_timeout",
                                                    "train.idle_timeout"};
  return kKeys;
}

}  // namespace dtrain::config
