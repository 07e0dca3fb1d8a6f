// dtrain run: a whole run in this process, or one task of a cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "checkpoint/model_file.h"
#include "cluster/place/place.h"
#include "cluster_flags.h"
#include "commands.h"
#include "net/asio/bound_port.h"
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
#include "secret_flags.h"
#include "service.h"

namespace dtrain::cmd {
namespace {

struct TaskFlags {
  RunFlags run;
  ClusterFlags cluster;
  SecretFlags secret;
  std::string job, listen;
  int task = -1;
  int ps = 0, port_base = 0;
  std::vector<int> listen_fds;
  bool launched = false, stay = false;
};

// Engines that end a job signal all its tasks, and kill them after 30 s (Slurm, torchrun, Kubernetes): most of that is
// the coordinator's, to end the run for all with a checkpoint.
constexpr Nanoseconds kEngineGrace = 20 * kSecond;

observe::ProgressMode progress_mode(const std::string& wanted) {
  if (wanted == "never") return observe::ProgressMode::kNone;
  if (wanted == "lines" || (wanted == "auto" && !isatty(STDERR_FILENO))) return observe::ProgressMode::kLines;
  return observe::ProgressMode::kBar;
}

Result<cluster::Place> place(const TaskFlags& flags) {
  cluster::Given given{.job = flags.job, .task = flags.task, .wishes = {flags.cluster.spec.options, flags.ps, {}}};
  if (flags.port_base > 0) given.wishes.port_base = flags.port_base;
  DTRAIN_TRY_ASSIGN(given.spec, flags.cluster.read());
  return cluster::find_place(given, process_environment());
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
  const bool solo = !place_here.task;
  const cluster::ClusterSpec spec = solo ? cluster::ClusterSpec::local() : place_here.task->spec;
  const cluster::Task self = solo ? spec.coordinator() : place_here.task->self;
  const bool coordinates = self == spec.coordinator();

  catch_signals(place_here.of_engine);
  SteadyClock clock;
  RealFileSystem files;
  const bool terminal = isatty(STDERR_FILENO) || flags.launched;  // the launcher asks for a bar only on one
  const bool colour = terminal && !std::getenv("NO_COLOR");
  observe::TaskLog log(stderr, solo || flags.launched ? "" : cluster::to_string(self) + ": ");
  observe::Progress progress(stderr, progress_mode(flags.run.progress), colour);
  log.before_line([&progress] { progress.leave_line(); });
  if (!place_here.sentence.empty()) log.info("{}", place_here.sentence);

  observe::ServiceNotifier service = service_of_environment(log);
  service.status("reading the run file and its data", clock.now());

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

  net::ProofMeans proof;
  if (!solo) {  // in one process there is nobody to prove it to
    DTRAIN_TRY_ASSIGN(proof, flags.secret.read());
  }

  node::TaskSetup setup;
  setup.self = static_cast<wire::Rank>(spec.rank_of(self));
  setup.incarnation = random_incarnation();
  setup.threads = offered_threads(run.spec.train, spec, self, solo ? 0 : place_here.task->tasks_here);
  setup.service = &service;
  setup.allow_put = flags.run.allow_put;
  setup.split = split;
  setup.says_how_it_goes = !flags.launched;
  setup.init_model = flags.run.init;
  DTRAIN_TRY(flags.run.check());
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
    bool resume = flags.run.resume;
    if (!resume) DTRAIN_TRY(node::can_start(run, static_cast<int64_t>(spec.workers().size())));
    if (!resume) DTRAIN_TRY(under_code(ExitCode::kUsage, files.make_directories(out.path())));
    DTRAIN_TRY(claim_folder(out.path()));
    if (!resume && flags.run.auto_resume) {
      DTRAIN_TRY_ASSIGN(resume, out.resumes(files, log));
    }
    DTRAIN_TRY_ASSIGN(const node::StartPlan plan, node::plan_start(run, static_cast<int64_t>(spec.workers().size()),
                                                                   out, resume, files, log, split != nullptr));
    if (flags.run.auto_resume && resume && plan.first_step == plan.steps) {
      DTRAIN_TRY_ASSIGN(const bool whole, files.exists(out.model()));
      if (whole) {
        log.info("the run in {} is done already, with its {} steps", out.path(), plan.steps);
        return ExitCode::kDone;
      }
    }
    DTRAIN_TRY_ASSIGN(record, node::RunRecord::open(run,
                                                    {out, plan.first_step, plan.steps, plan.micro_batches,
                                                     tasks_text(spec), static_cast<uint32_t>(spec.workers().size())},
                                                    files, clock, log, progress));
    DTRAIN_TRY(out.mark(files, setup.incarnation));
    setup.coordinator = node::coordinator_options(run, plan, std::filesystem::absolute(out.checkpoints()).string());
    setup.events = record.get();
  }
  std::vector<int> listen_fds = flags.listen_fds;
  if (!solo && !flags.listen.empty()) {
    DTRAIN_TRY_ASSIGN(auto bound, net::bind_port(flags.listen, spec.address_of(self).port, log));
    for (auto& socket : bound.sockets) listen_fds.push_back(socket.release());
  }
  Result<ExitCode> end = solo ? node::run_solo(run, std::move(setup), files, clock, log, interrupts)
                              : node::run_in_cluster(run, spec, std::move(setup),
                                                     {.listen_fds = listen_fds,
                                                      .allow_guests = flags.run.allow_guests,
                                                      .computes = computes,
                                                      .interrupt_grace = place_here.of_engine ? kEngineGrace : 0,
                                                      .proof = proof},
                                                     files, clock, log, interrupts);
  if (coordinates) DTRAIN_TRY(out.remove_marks(files));
  if (record && end && *end == ExitCode::kDone) DTRAIN_TRY(record->outcome());
  return end;
}

}  // namespace

const Command kRun{
    "run", "train: a whole run in this process, or one task of a cluster",
    [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<TaskFlags>();
      flags->run.declare(app);
      flags->cluster.declare(app);
      flags->secret.declare(app);
      flags->secret.declare_fd(app);
      add_flag_value(app, "--job_name", flags->job, "the job of this task")->type_name("JOB");
      add_flag_value(app, "--task_id", flags->task, "the index of this task in its job", {"--task_index"})
          ->check(CLI::Range(0, 100000));
      add_flag_value(app, "--ps", flags->ps,
                     "of the tasks that an engine (srun, mpirun, torchrun) has started, so many are "
                     "parameter servers")
          ->check(CLI::Range(0, 65535));
      add_flag_value(app, "--port_base", flags->port_base, "the first port for the tasks that an engine has started")
          ->check(CLI::Range(1, 65535));
      add_switch(app, "--stay", flags->stay,
                 "when the run is done, wait for a signal to end: for a service that starts again whoever ends");
      add_flag_value(
          app, "--listen", flags->listen,
          "listen at this address of this host, with the port of the cluster spec; default: at the one there")
          ->type_name("ADDRESS");
      // For the launcher: inherited sockets that are bound already, and that it puts the task's name
      // before each line.
      app.add_option("--listen_fd", flags->listen_fds, "")->allow_extra_args(false)->group("");
      add_switch(app, "--launched", flags->launched, "")->group("");
      return [flags] {
        const auto end = run_task(*flags);
        if (flags->stay && end && *end == ExitCode::kDone) wait_for_interrupt();
        return end ? *end : report(end.error());
      };
    }};

}  // namespace dtrain::cmd
