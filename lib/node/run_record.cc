#include "node/run_record.h"

#include <fmt/format.h>

#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "config/canonical.h"
#include "node/learnt.h"
#include "optim/weight_average.h"

namespace dtrain::node {

using observe::json_number;
using observe::json_string;

namespace {

checkpoint::ParameterKind manifest_kind(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kStatistic:
      return checkpoint::ParameterKind::kStatistic;
    case ParameterKind::kFrozen:
      return checkpoint::ParameterKind::kFrozen;
    case ParameterKind::kSparse:
      return checkpoint::ParameterKind::kSparse;
    case ParameterKind::kTrainable:
      break;
  }
  return checkpoint::ParameterKind::kParameter;
}

}  // namespace

Result<std::unique_ptr<RunRecord>> RunRecord::open(const RunDefinition& run, Setup setup, FileSystem& files,
                                                   const Clock& clock, Log& log, observe::Progress& progress) {
  const auto resumed = setup.first_step > 0 ? std::optional(setup.first_step) : std::nullopt;
  DTRAIN_TRY_ASSIGN(auto metrics, observe::MetricsFile::open(setup.out.metrics(), resumed));
  return std::unique_ptr<RunRecord>(
      new RunRecord(run, std::move(setup), files, clock, log, progress, std::move(metrics)));
}

RunRecord::RunRecord(const RunDefinition& run, Setup setup, FileSystem& files, const Clock& clock, Log& log,
                     observe::Progress& progress, observe::MetricsFile metrics)
    : run_(run),
      setup_(std::move(setup)),
      files_(files),
      clock_(clock),
      log_(log),
      progress_(progress),
      metrics_(std::move(metrics)),
      checkpoints_(files, setup_.out.checkpoints(), log) {}

void RunRecord::on_begin(int64_t step, uint32_t threads) {
  row_at_ = said_at_ = clock_.now();
  began_ = row_at_;
  row_step_ = step;
  threads_ = threads;
  const config::TrainSpec& train = run_.spec.train;
  log_.info("{}: {}; {}{} steps of {} samples, {} micro-batch{} a step, {} thread{} each", run_.spec.name, setup_.tasks,
            step > 0 ? fmt::format("goes on after step {} of ", step) : "", setup_.steps, train.batch,
            setup_.micro_batches, setup_.micro_batches == 1 ? "" : "es", threads, threads == 1 ? "" : "s");
  if (const auto why = run_.why_not_reproducible())
    log_.info("not reproducible to the bit: {}", *why);
  else if (!train.micro_batch || !train.threads)
    log_.info(
        "{} chosen for this cluster; for the same bits on another one set train.micro_batch = {} and "
        "train.threads = {}",
        train.micro_batch ? "threads are"
        : train.threads   ? "micro-batches are"
                          : "micro-batches and threads are",
        train.batch / setup_.micro_batches, threads);
  note(metrics_.event("begin", {{"name", json_string(run_.spec.name)},
                                {"step", fmt::format("{}", step)},
                                {"steps", fmt::format("{}", setup_.steps)},
                                {"micro_batches", fmt::format("{}", setup_.micro_batches)},
                                {"threads", fmt::format("{}", threads)},
                                {"tasks", json_string(setup_.tasks)}}));
}

void RunRecord::on_step(const cluster::StepReport& report) {
  const int64_t done = report.step + 1;
  const Instant now = clock_.now();
  const double batch = static_cast<double>(run_.spec.train.batch), samples = static_cast<double>(run_.train->size());
  const double seconds = static_cast<double>(now - row_at_) / kSecond;
  const double per_second = static_cast<double>(done - row_step_) * batch / std::max(seconds, 1e-9);
  const double loss = report.metrics.mean_loss();
  const double rate = run_.local_steps() ? run_.worker_rate_at(report.step, setup_.steps) : report.rate;
  loss_ = loss;
  if (report.staleness) look_at_staleness(*report.staleness);
  const int64_t every = run_.spec.train.log_every;
  const bool row = done / every > (done - run_.rule->mode().stride) / every || done == setup_.steps || report.last;
  said_at_ = now;
  const auto left = static_cast<Nanoseconds>(static_cast<double>(setup_.steps - done) * batch / per_second * kSecond);
  progress_.update({done, setup_.steps, static_cast<double>(done) * batch / samples,
                    static_cast<double>(setup_.steps) * batch / samples, loss, per_second, left},
                   now, row);
  if (!row) return;
  observe::StepRow values{done,      static_cast<double>(done) * batch / samples, loss, shares(report.metrics), rate,
                          per_second};
  if (staleness_) values.stale = observe::StaleRow{staleness_->mean, staleness_->p99, staleness_->dropped};
  note(metrics_.step(values));
  row_at_ = now;
  row_step_ = done;
}

// Said once: stale gradients spoil a run without a word of their own.
void RunRecord::look_at_staleness(const cluster::StalenessReport& report) {
  constexpr uint64_t kEnough = 200;  // pushes
  staleness_ = report;
  if (warned_of_staleness_ || report.pushes + report.dropped < kEnough) return;
  const double workers = setup_.workers, many = static_cast<double>(report.pushes + report.dropped);
  const bool behind = report.mean > 1.5 * workers;
  const bool dropping = run_.rule->mode().needed <= 1 && static_cast<double>(report.dropped) > 0.1 * many;
  if (!behind && !dropping) return;
  warned_of_staleness_ = true;
  log_.warning(
      "gradients are {:.1f} {} behind on average and {} of {} came too late to count: this may cost accuracy. A "
      "smaller "
      "lr, a bound (train.consistency = {{type = \"stale\", bound = …}}) or workers of equal speed help",
      report.mean, run_.rule->mode().lockstep ? "versions" : "pushes", report.dropped, report.pushes + report.dropped);
}

void RunRecord::on_eval(int64_t version, const Metrics& metrics) {
  eval_ = metrics;
  observe::MetricsFile::Fields fields{{"step", fmt::format("{}", version)}, {"loss", json_number(metrics.mean_loss())}};
  for (const auto& [name, share] : shares(metrics)) fields.emplace_back(name, json_number(share));
  fields.emplace_back("samples", fmt::format("{:.0f}", metrics.samples));
  note(metrics_.event("eval", fields));
  log_.info("after step {}: test loss {}{}", version, observe::format_loss(metrics.mean_loss()),
            describe(shares(metrics)));
  // The evaluation's time is no training time.
  const Instant now = clock_.now();
  row_at_ += now - said_at_;
  said_at_ = now;
}

Status RunRecord::on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) {
  if (const Status committed = checkpoints_.commit(manifest(version, files)); !committed) {
    (void)checkpoints_.abandon(version);  // on a full disk, what is half there would stand in the way of the next
    return committed;
  }
  // The checkpoint is there, whatever becomes of the old ones.
  if (const Status pruned = checkpoints_.prune(run_.spec.train.keep_checkpoints, version); !pruned)
    log_.warning("old checkpoints stay: {}", pruned.error().message);
  note(metrics_.event("checkpoint", {{"step", fmt::format("{}", version)}}));
  checkpoint_ = version;
  return {};
}

void RunRecord::on_snapshot_abandoned(int64_t version, const std::string& reason) {
  log_.warning("the checkpoint of step {} was not written: {}", version, reason);
  note(metrics_.event("checkpoint_failed", {{"step", fmt::format("{}", version)}, {"reason", json_string(reason)}}));
  (void)checkpoints_.abandon(version);
}

void RunRecord::on_put(int64_t version, const std::string& tensor) {
  note(metrics_.event("put", {{"step", fmt::format("{}", version)}, {"tensor", json_string(tensor)}}));
}

void RunRecord::on_stopped(ExitCode code, const std::string& reason) {
  const Nanoseconds took = began_ ? clock_.now() - *began_ : 0;
  progress_.leave_line();
  if (code != ExitCode::kDone) {
    note(metrics_.event("stopped",
                        {{"exit_code", fmt::format("{}", static_cast<int>(code))}, {"reason", json_string(reason)}}));
    log_.info("{}", checkpoint_ ? fmt::format("the newest checkpoint is {}; --resume goes on from it",
                                              checkpoints_.path_of(*checkpoint_))
                                : std::string("there is no checkpoint of this run"));
    return;
  }
  // Only now: a large model takes longer than others wait for a sign of life. A resumed run with no step left may find
  // that an earlier life did not come to it.
  outcome_ = write_model();
  if (!outcome_) return;
  observe::MetricsFile::Fields fields{{"step", fmt::format("{}", end_step())},
                                      {"seconds", json_number(static_cast<double>(took) / kSecond)}};
  const AnswerShares answers = eval_ ? shares(*eval_) : AnswerShares{};
  for (const auto& [name, share] : answers) fields.emplace_back("test_" + name, json_number(share));
  if (staleness_) {
    fields.emplace_back("lag_mean", json_number(staleness_->mean));
    fields.emplace_back("lag_p99", fmt::format("{}", staleness_->p99));
    fields.emplace_back("dropped", fmt::format("{}", staleness_->dropped));
    log_.info("gradients were {:.2f} {} behind on average, 99 % of them at most {}; {} came too late to count",
              staleness_->mean, run_.rule->mode().lockstep ? "versions" : "pushes", staleness_->p99,
              staleness_->dropped);
  }
  fields.emplace_back("model", json_string(model_hash_));
  note(metrics_.event("end", fields));
  log_.info("done: {} steps{}{}, {}, model {}", end_step(), loss_ ? ", loss " + observe::format_loss(*loss_) : "",
            describe(answers, "test "), observe::format_duration(took), model_hash_);
}

checkpoint::Manifest RunRecord::manifest(int64_t version, const std::vector<wire::SnapshotDone>& files) const {
  checkpoint::Manifest m;
  m.program = DTRAIN_VERSION;
  m.step = version;
  m.micro_batches = setup_.micro_batches;
  m.threads = threads_;
  m.seed = run_.spec.seed;
  m.run_name = run_.spec.name;
  m.run_digest = to_hex(run_.run_digest);
  m.config = config::effective_toml(run_.root);
  for (const ParameterInfo& p : run_.network->parameters())
    m.parameters.push_back({p.name, p.shape, DType::kF32, manifest_kind(p.kind)});
  m.metadata = Learnt::of(*run_.train).metadata();
  m.slots = run_.optimizer.optimizer->slot_names();
  for (const wire::SnapshotDone& file : files) m.files.push_back({file.file, file.bytes, file.sha256});
  return m;
}

Status RunRecord::write_model() {
  DTRAIN_TRY_ASSIGN(const auto reader, checkpoint::LogicalReader::open(files_, checkpoints_.path_of(end_step())));
  DTRAIN_TRY(checkpoint::write_model(files_, setup_.out.model(), reader));
  if (run_.spec.train.ema > 0)
    DTRAIN_TRY(checkpoint::write_model(files_, setup_.out.model_average(), reader, optim::kWeightAverageSlot));
  DTRAIN_TRY_ASSIGN(const Digest hash, checkpoint::model_hash(reader));
  model_hash_ = to_hex(hash);
  return {};
}

void RunRecord::note(const Status& status) {
  if (status || complained_) return;
  complained_ = true;
  log_.warning("{}; the run goes on without further rows", status.error().message);
}

}  // namespace dtrain::node
