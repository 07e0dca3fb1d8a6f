#include "step_timing.h"

#include <algorithm>
#include <limits>

#include "figures/figure.h"
#include "node/arithmetic.h"
#include "node/cluster_run.h"
#include "node/coordinator_setup.h"
#include "node/fixed_feed.h"
#include "node/solo_run.h"
#include "node/step_timer.h"
#include "node/synthetic_data.h"
#include "observe/task_log.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

constexpr int64_t kEndless = int64_t{1} << 40;  // samples: no epoch ends while steps are timed

void make_up_data(node::RunDefinition& run) {
  const int64_t samples = run.optimizer.optimizer->full_batch() ? run.spec.train.batch : kEndless;
  run.train = node::synthetic_data(*run.network, samples, run.spec.seed);
  run.shuffle = false;
  run.data_digest = run.train->digest();
}

}  // namespace

void StepSetup::declare(CLI::App& app) {
  run_file.declare(app);
  add_flag_value(app, "--threads", threads, "threads for one micro-batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_flag_value(app, "--steps", steps, "steps to time")->check(CLI::Range(1, 1000000))->capture_default_str();
  add_flag_value(app, "--warmup", warmup, "steps before that")->check(CLI::Range(0, 1000000))->capture_default_str();
}

std::vector<std::string> StepSetup::words() const {
  std::vector<std::string> words{run_file.file};
  for (const std::string& assignment : run_file.set) words.insert(words.end(), {"--set", assignment});
  for (const auto& [flag, value] :
       {std::pair("--threads", threads), {"--steps", steps}, {"--warmup", warmup}, {"--workers", workers}})
    words.insert(words.end(), {flag, std::to_string(value)});
  if (own_data) words.emplace_back("--data");
  if (strong) words.emplace_back("--strong");
  return words;
}

double StepTimes::median_rate() const {
  std::vector<double> sorted(steps.begin(), steps.end());
  std::sort(sorted.begin(), sorted.end());
  return static_cast<double>(batch) * kSecond / figures::quantile(sorted, 0.5);
}

Result<node::RunDefinition> read_timed_run(const StepSetup& setup, const FileSystem& files) {
  std::vector<std::string> set = setup.run_file.set;
  set.push_back(fmt::format("train.threads={}", setup.threads));
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(setup.run_file.file, set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  if (setup.own_data)
    DTRAIN_TRY(run.open_data(files));
  else
    make_up_data(run);
  config::TrainSpec& train = run.spec.train;
  if (setup.strong) {
    if (!train.micro_batch) train.micro_batch = train.batch / node::automatic_micro_batches(train.batch, setup.workers);
  } else {
    if (!train.micro_batch) train.micro_batch = train.batch;
    train.batch *= setup.workers;
  }
  // Nothing but steps: no evaluation, no checkpoint.
  train.eval_every = std::numeric_limits<int64_t>::max();
  train.checkpoint_every = 0;
  return run;
}

Result<StepTimes> time_steps(const node::RunDefinition& run, const StepSetup& setup, const TimedTask& task, Feed feed,
                             worker::OpProfile* profile) {
  RealFileSystem files;
  SteadyClock clock;
  const cluster::ClusterSpec spec = task.spec ? *task.spec : cluster::ClusterSpec::local();
  const cluster::Task self = task.spec ? task.self : spec.coordinator();
  const bool computes = spec.role_of(self) == cluster::Role::kWorker;
  observe::TaskLog log(stderr, "", LogLevel::kWarning);
  node::StepTimer timer(clock, setup.warmup);

  node::StartPlan plan;
  plan.steps = setup.warmup + setup.steps;
  plan.micro_batches = static_cast<uint32_t>(run.spec.train.batch / *run.spec.train.micro_batch);
  plan.threads = static_cast<uint32_t>(setup.threads);
  node::TaskSetup of_task;
  of_task.self = static_cast<wire::Rank>(spec.rank_of(self));
  of_task.incarnation = random_incarnation();
  of_task.threads = plan.threads;
  of_task.profile = profile;
  if (self == spec.coordinator()) {
    of_task.coordinator = node::coordinator_options(run, plan, "");
    of_task.events = &timer;
  }
  std::unique_ptr<node::FixedFeed> fixed;
  if (computes && feed == Feed::kFixedBatch) {
    // Loaded here, so that data that cannot be read is an error of the command.
    DTRAIN_TRY_ASSIGN(fixed, node::FixedFeed::load(run, plan.micro_batches));
    of_task.feed = [&fixed](const wire::Begin&) { return std::move(fixed); };
  }
  ExitCode end;
  if (!task.spec) {
    end = node::run_solo(run, std::move(of_task), files, clock, log, interrupts);
  } else {
    DTRAIN_TRY_ASSIGN(
        end, node::run_in_cluster(run, spec, std::move(of_task), {.listen_fds = task.listen_fds, .computes = computes},
                                  files, clock, log, interrupts));
  }
  if (end != ExitCode::kDone) return fail(end, "the benchmark's run did not end well");
  return StepTimes{timer.steps(), run.spec.train.batch, peak_rss_mib()};
}

}  // namespace dtrain::cmd
