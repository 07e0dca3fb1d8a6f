// dtrain run: a whole run in this process, or one task of a cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "checkpoint/model_file.h"
#include "cluster/tf_config.h"
#include "cluster_flags.h"
#include "commands.h"
#include "node/arithmetic.h"
#include "node/cluster_run.h"
#include "node/coordinator_setup.h"
#include "node/network_split.h"
#include "node/run_record.h"
#include "node/solo_run.h"
#include "node/start_plan.h"
#include "observe/task_log.h"
#include "process.h"
#include "run_flags.h"

namespace dtrain::cmd {
namespace {

struct TaskFlags {
  RunFlags run;
  ClusterFlags cluster;
  std::string job;
  int task = -1;
  int listen_fd = -1;
  bool launched = false;
};

observe::ProgressMode progress_mode(const std::string& wanted) {
  if (wanted == "never") return observe::ProgressMode::kNone;
  if (wanted == "lines" || (wanted == "auto" && !isatty(STDERR_FILENO))) return observe::ProgressMode::kLines;
  return observe::ProgressMode::kBar;
}

Result<std::optional<std::pair<cluster::ClusterSpec, cluster::Task>>> place(const TaskFlags& flags) {
  DTRAIN_TRY_ASSIGN(auto spec, flags.cluster.read());
  const char* const tf_config = std::getenv("TF_CONFIG");
  if (!spec && tf_config && flags.job.empty() && flags.task < 0) {
    DTRAIN_TRY_ASSIGN(auto placed, cluster::parse_tf_config(tf_config, flags.cluster.spec.options));
    if (placed) return std::optional(std::make_pair(std::move(placed->spec), std::move(placed->self)));
  }
  if (!spec) {
    if (!flags.job.empty() || flags.task >= 0)
      return fail(ExitCode::kUsage,
                  "--job_name and --task_id need a cluster: --cluster FILE, --cluster_spec SPEC, or --ps_hosts "
                  "and --worker_hosts");
    if (flags.cluster.spec.any())
      return fail(ExitCode::kUsage,
                  "--servers, --max_workers, --min_workers and --start_grace are of a cluster: give --cluster_spec, or "
                  "--ps_hosts and --worker_hosts");
    return std::optional<std::pair<cluster::ClusterSpec, cluster::Task>>();
  }
  if (flags.job.empty() || flags.task < 0)
    return fail(ExitCode::kUsage,
                fmt::format("which task of the cluster is this? Give --job_name and --task_id; tasks: {}",
                            fmt::join(
                                [&] {
                                  std::vector<std::string> names;
                                  for (const auto& t : spec->tasks()) names.push_back(cluster::to_string(t));
                                  return names;
                                }(),
                                ", ")));
  DTRAIN_TRY_ASSIGN(const cluster::Task self, spec->find(flags.job, flags.task));
  return std::optional(std::make_pair(std::move(*spec), self));
}

std::string tasks_text(const cluster::ClusterSpec& spec) {
  int workers = 0, ps = 0, others = 0;
  for (const cluster::Task& task : spec.tasks())
    ++(spec.role_of(task) == cluster::Role::kPs ? ps : spec.listed(task) ? workers : others);
  std::string text = fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  if (others > 0) text += fmt::format(" (up to {})", workers + others);
  if (ps > 0)
    text += fmt::format(", {} ps{}", ps, spec.servers().size() > static_cast<size_t>(ps) ? ", servers on all" : "");
  return text;
}

Result<ExitCode> run_task(const TaskFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto place_here, place(flags));
  const bool solo = !place_here;
  const cluster::ClusterSpec spec = solo ? cluster::ClusterSpec::local() : place_here->first;
  const cluster::Task self = solo ? spec.coordinator() : place_here->second;
  const bool coordinates = self == spec.coordinator();

  catch_signals();
  SteadyClock clock;
  RealFileSystem files;
  const bool terminal = isatty(STDERR_FILENO) || flags.launched;  // the launcher asks for a bar only on one
  const bool colour = terminal && !std::getenv("NO_COLOR");
  observe::TaskLog log(stderr, solo || flags.launched ? "" : cluster::to_string(self) + ": ");
  observe::Progress progress(stderr, progress_mode(flags.run.progress), colour);
  log.before_line([&progress] { progress.leave_line(); });
  if (!solo && flags.job.empty()) log.info("the cluster and this task are those of TF_CONFIG in the environment");

  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run.run_file.file, flags.run.run_file.set, files));
  std::shared_ptr<const node::NetworkSplit> split;
  if (!solo) {
    DTRAIN_TRY_ASSIGN(split, node::read_split(run, spec));
  } else if (node::names_tasks(*run.network)) {
    log.info("one process computes all layers, whatever task their 'device' names");
  }
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  const bool computes = spec.role_of(self) == cluster::Role::kWorker;
  if (computes || coordinates) DTRAIN_TRY(run.open_data(files));  // a server knows no samples

  node::TaskSetup setup;
  setup.self = static_cast<wire::Rank>(spec.rank_of(self));
  setup.incarnation = random_incarnation();
  setup.threads = offered_threads(run.spec.train, spec, self);
  setup.allow_put = flags.run.allow_put;
  setup.split = split;
  setup.says_how_it_goes = !flags.launched;
  setup.init_model = flags.run.init;
  if (!setup.init_model.empty()) {
    if (flags.run.resume)
      return fail(ExitCode::kUsage, "give --resume or --init: a resumed run begins with its checkpoint");
    if (files.list(setup.init_model))
      return fail(ExitCode::kCheckpoint,
                  fmt::format("--init takes a model file, and {0} is a folder; the model of a run "
                              "is {0}/model.safetensors",
                              setup.init_model));
    DTRAIN_TRY_ASSIGN(const auto model, checkpoint::SafetensorsReader::open(files, setup.init_model));
    DTRAIN_TRY_ASSIGN(setup.init_digest, checkpoint::model_hash(model));
  }

  const node::OutFolder out(flags.run.out_folder(run.spec.name));
  std::unique_ptr<node::RunRecord> record;
  if (coordinates) {
    // First of all: a resumed run cuts the record back to its checkpoint.
    if (!flags.run.resume) DTRAIN_TRY(node::can_start(run, static_cast<int64_t>(spec.workers().size())));
    if (!flags.run.resume) DTRAIN_TRY(under_code(ExitCode::kUsage, files.make_directories(out.path())));
    DTRAIN_TRY(claim_folder(out.path()));
    DTRAIN_TRY_ASSIGN(const node::StartPlan plan,
                      node::plan_start(run, static_cast<int64_t>(spec.workers().size()), out, flags.run.resume, files,
                                       log, split != nullptr));
    DTRAIN_TRY_ASSIGN(record, node::RunRecord::open(run,
                                                    {out, plan.first_step, plan.steps, plan.micro_batches,
                                                     tasks_text(spec), static_cast<uint32_t>(spec.workers().size())},
                                                    files, clock, log, progress));
    DTRAIN_TRY(out.mark(files, setup.incarnation));
    setup.coordinator = node::coordinator_options(run, plan, std::filesystem::absolute(out.checkpoints()).string());
    setup.events = record.get();
  }
  Result<ExitCode> end =
      solo ? node::run_solo(run, std::move(setup), files, clock, log, interrupts)
           : node::run_in_cluster(
                 run, spec, std::move(setup),
                 {.listen_fd = flags.listen_fd, .allow_guests = flags.run.allow_guests, .computes = computes}, files,
                 clock, log, interrupts);
  if (coordinates) DTRAIN_TRY(out.remove_marks(files));
  if (record && end && *end == ExitCode::kDone) DTRAIN_TRY(record->outcome());
  return end;
}

}  // namespace

const Command kRun{"run", "train: a whole run in this process, or one task of a cluster",
                   [](CLI::App& app) -> std::function<ExitCode()> {
                     auto flags = std::make_shared<TaskFlags>();
                     flags->run.declare(app);
                     flags->cluster.declare(app);
                     add_flag_value(app, "--job_name", flags->job, "the job of this task")->type_name("JOB");
                     add_flag_value(app, "--task_id", flags->task, "the index of this task in its job",
                                    {"--task_index"})
                         ->check(CLI::Range(0, 100000));
                     // For the launcher: an inherited socket that listens already, and that it puts the task's name
                     // before each line.
                     add_flag_value(app, "--listen_fd", flags->listen_fd, "")->group("");
                     add_switch(app, "--launched", flags->launched, "")->group("");
                     return [flags] {
                       const auto end = run_task(*flags);
                       return end ? *end : report(end.error());
                     };
                   }};

}  // namespace dtrain::cmd
