#include "launch_slurm.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/file_system.h"
#include "drawn_secret.h"
#include "launch/programs.h"
#include "launch/shell_quote.h"
#include "launch/slurm_script.h"
#include "launch_flags.h"
#include "node/network_split.h"
#include "node/out_folder.h"
#include "node/run_definition.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

// The same tasks at addresses that stand for those that Slurm will choose: what the cluster cannot be is said now.
Result<cluster::ClusterSpec> stand_in(const SpecFlags& spec, int workers, int ps) {
  std::string ps_hosts, worker_hosts;
  for (int i = 0; i < ps; ++i) ps_hosts += fmt::format("{}server{}:1", i > 0 ? "," : "", i);
  for (int i = 0; i < workers; ++i) worker_hosts += fmt::format("{}worker{}:1", i > 0 ? "," : "", i);
  return cluster::parse_host_lists(ps_hosts, worker_hosts, spec.options);
}

// The secret by its file: what is in the script or on a command line others can read.
std::vector<std::string> command_line(const LaunchFlags& flags, const std::string& out, const std::string& secret_file,
                                      int ps) {
  const RunFlags& run = flags.run;
  std::vector<std::string> words{own_path(), "run", run.run_file.file};
  if (ps > 0) words.insert(words.end(), {"--ps", std::to_string(ps)});
  for (std::string& word : flags.spec.words()) words.push_back(std::move(word));
  words.insert(words.end(), {"--out", out, "--secret_file", secret_file});
  for (std::string& word : run.words()) words.push_back(std::move(word));
  if (run.progress != "auto") words.insert(words.end(), {"--progress", run.progress});
  return words;
}

std::string tasks_text(int workers, int ps, int nodes) {
  std::string text = fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  if (ps > 0) text += fmt::format(", {} ps", ps);
  if (nodes > 0) text += fmt::format(" on {} node{}", nodes, nodes == 1 ? "" : "s");
  return text;
}

Status check(const LaunchFlags& flags, int workers, int ps) {
  if (workers < 1)
    return fail(ExitCode::kUsage,
                "a run needs at least one worker: --workers N (with --ps M, or with the servers beside the workers)");
  if (!flags.cluster.empty() || !flags.hostfile.empty())
    return fail(ExitCode::kUsage,
                "--slurm chooses the hosts: give --workers N and --ps M instead of --cluster and --hostfile");
  if (flags.sync || flags.sync_data || !flags.remote_dir.empty() || !flags.remote_dtrain.empty())
    return fail(ExitCode::kUsage,
                "--sync and --remote_… are of hosts that ssh reaches; with --slurm the nodes share a disk");
  if (flags.max_restarts > 0)
    return fail(ExitCode::kUsage,
                "--max_restarts is of a launcher that stays; with --slurm give --auto_resume, and Slurm "
                "starts the job again where its nodes fail");
  if (!flags.only.empty() || !flags.log_dir.empty() || !flags.environment.empty())
    return fail(ExitCode::kUsage,
                "--only, --log_dir and --env are of a launcher that stays; with --slurm all goes into one "
                "file in --out, and sbatch hands the environment on");
  DTRAIN_TRY(flags.run.check());
  if (flags.slurm.nodes > workers + ps)
    return fail(ExitCode::kUsage,
                fmt::format("--nodes {}: there are only {} tasks to put on them", flags.slurm.nodes, workers + ps));
  return {};
}

Status submit(const std::string& file, const std::string& tasks, const std::string& log, bool own_log) {
  constexpr double kPatience = 120;  // seconds; sbatch asks again and again where the controller does not answer
  if (!in_path("sbatch"))
    return fail(ExitCode::kUsage,
                fmt::format("there is no sbatch here: launch it where Slurm's commands are installed; "
                            "the batch script is {}",
                            file));
  const launch::PipelineEnd said = launch::run_pipelines({{{{"sbatch", "--parsable", file}}}}, kPatience).front();
  const std::string id = said.good ? launch::job_id(said.output) : "";
  if (id.empty()) return fail(ExitCode::kUsage, fmt::format("sbatch did not take {}:\n{}", file, said.why()));
  fmt::print(stderr, "[launch] job {} of Slurm: {}, by {}\n", id, tasks, file);
  fmt::print(stderr, "[launch] squeue -j {} shows where it is, {}, scancel {} ends it with a checkpoint\n", id,
             own_log ? fmt::format("tail -F {} what it says", log + id + ".log")
                     : fmt::format("scontrol show job {} all of it", id),
             id);
  return {};
}

}  // namespace

void SlurmFlags::declare(CLI::App& app) {
  add_switch(app, "--slurm", on, "submit the run to Slurm, as a batch job");
  add_flag_value(app, "--nodes", nodes, "with --slurm: on so many nodes; default: as many as Slurm chooses")
      ->check(CLI::Range(1, 65536));
  app.add_option(spellings("--sbatch_option"), options,
                 "with --slurm: an option of sbatch, as --sbatch_option=--time=2:00:00; repeatable")
      ->allow_extra_args(false)
      ->type_name("OPTION");
  add_switch(app, "--print", print, "with --slurm: print the batch script instead of submitting it");
}

Status SlurmFlags::only_with_slurm() const {
  if (on || (!print && nodes == 0 && options.empty())) return {};
  return fail(ExitCode::kUsage, "--nodes, --sbatch_option and --print are for --slurm");
}

Result<ExitCode> launch_on_slurm(const LaunchFlags& flags) {
  const RunFlags& run = flags.run;
  const int workers = std::max(0, flags.workers), ps = std::max(0, flags.ps);  // −1: not given
  DTRAIN_TRY(check(flags, workers, ps));
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto definition, node::RunDefinition::read(run.run_file.file, run.run_file.set, files));
  DTRAIN_TRY_ASSIGN(const cluster::ClusterSpec tasks, stand_in(flags.spec, workers, ps));
  DTRAIN_TRY_ASSIGN(const auto split, node::read_split(definition, tasks));
  const std::string out = run.out_folder(definition.spec.name);
  const std::string folder = std::filesystem::absolute(out).lexically_normal().string();
  const bool drawn = flags.secret.file.empty();
  const std::string secret_file = drawn ? drawn_secret_file(out) : flags.secret.file;
  if (!drawn) DTRAIN_TRY(flags.secret.read());  // it is one, and nobody else can read it

  launch::SlurmScript script;
  script.job_name = definition.spec.name;
  script.folder = std::filesystem::current_path().string();
  script.log = launch::without_patterns(folder) + "/slurm-%j.log";
  script.tasks = workers + ps;
  script.nodes = flags.slurm.nodes;
  script.options = flags.slurm.options;
  script.requeue = run.resume || run.auto_resume;
  script.expendable_tasks = !split && !tasks.serves({"worker", 0});
  script.command = command_line(flags, out, secret_file, ps);
  DTRAIN_TRY_ASSIGN(const std::string text, launch::slurm_script(script));
  if (flags.slurm.print) {
    fmt::print("{}", text);
    if (drawn)
      fmt::print(stderr,
                 "[launch] the tasks will read a secret from {0}, which is not written now: (umask 077; openssl "
                 "rand -hex 32 > {0})\n",
                 launch::shell_quote(secret_file));
    return ExitCode::kDone;
  }
  if (!script.requeue) DTRAIN_TRY(node::OutFolder(out).create(files));
  DTRAIN_TRY(under_code(ExitCode::kUsage, files.make_directories(out)));
  if (drawn) DTRAIN_TRY(write_secret(secret_file, draw_secret()));
  const std::string file = out + "/slurm.sh";
  DTRAIN_TRY(under_code(ExitCode::kUsage, files.replace_file(file, text)));
  DTRAIN_TRY(submit(file, tasks_text(workers, ps, flags.slurm.nodes), out + "/slurm-",
                    !launch::has_option(flags.slurm.options, "output", 'o')));
  return ExitCode::kDone;
}

}  // namespace dtrain::cmd
