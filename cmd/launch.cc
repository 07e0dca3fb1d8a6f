// dtrain launch: the whole cluster of a run, as processes on this machine.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/file_system.h"
#include "cluster/spec.h"
#include "cluster_flags.h"
#include "commands.h"
#include "config/load.h"
#include "launch/free_ports.h"
#include "launch/supervisor.h"
#include "node/network_split.h"
#include "node/out_folder.h"
#include "node/run_definition.h"
#include "process.h"
#include "run_flags.h"

namespace dtrain::cmd {
namespace {

struct LaunchFlags {
  RunFlags run;
  std::string cluster;
  SpecFlags spec;
  int workers = 0, ps = 0;
};

Result<cluster::ClusterSpec> cluster_of(const LaunchFlags& flags, const std::vector<launch::ReservedPort>& ports) {
  if (!flags.cluster.empty()) {
    DTRAIN_TRY_ASSIGN(const config::Value root, config::load_file(flags.cluster));
    return cluster::read_cluster_spec(root);
  }
  std::string ps, workers;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::string& list = i < static_cast<size_t>(flags.ps) ? ps : workers;
    list += fmt::format("{}127.0.0.1:{}", list.empty() ? "" : ",", ports[i].port);
  }
  return cluster::parse_host_lists(ps, workers, flags.spec.options);
}

// Tasks on other machines are started there by hand: say so rather than start half a cluster.
Status all_local(const cluster::ClusterSpec& spec, const std::string& file) {
  for (const cluster::Task& task : spec.tasks()) {
    const std::string& host = spec.address_of(task).host;
    if (!spec.listed(task) || host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0) continue;
    return fail(ExitCode::kUsage,
                fmt::format("{} is on {}: launch starts tasks on this machine only; on each host run\n"
                            "  dtrain run RUN.toml --cluster {} --job_name {} --task_id N",
                            cluster::to_string(task), host, file, task.job));
  }
  return {};
}

std::vector<std::string> cluster_words(const LaunchFlags& flags, const cluster::ClusterSpec& spec) {
  if (!flags.cluster.empty()) return {"--cluster", flags.cluster};
  std::vector<std::string> words = flags.spec.words();
  words.insert(words.begin(), {"--cluster_spec", cluster::to_string(spec)});
  return words;
}

std::vector<std::string> command_line(const LaunchFlags& flags, const cluster::ClusterSpec& spec,
                                      const cluster::Task& task, const std::string& out, bool coordinator) {
  std::vector<std::string> words{own_path(), "run", flags.run.run_file.file};
  for (std::string& word : cluster_words(flags, spec)) words.push_back(std::move(word));
  words.insert(words.end(),
               {"--job_name", task.job, "--task_id", std::to_string(task.index), "--out", out, "--launched"});
  for (const std::string& set : flags.run.run_file.set) words.insert(words.end(), {"--set", set});
  if (!flags.run.init.empty()) words.insert(words.end(), {"--init", flags.run.init});
  if (flags.run.allow_guests) words.emplace_back("--allow_guests");
  if (flags.run.allow_put) words.emplace_back("--allow_put");
  if (flags.run.resume) words.emplace_back("--resume");
  // One task speaks of progress. A task's output is a pipe: only the launcher knows whether a terminal is behind it.
  const bool bar = flags.run.progress == "always" || (flags.run.progress == "auto" && isatty(STDERR_FILENO));
  const char* mode = !coordinator || flags.run.progress == "never" ? "never" : bar ? "always" : "lines";
  words.insert(words.end(), {"--progress", mode});
  return words;
}

// As a shell reads them; what is quoted here holds no quotation marks itself.
std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{0}{1}{2}{1}", text.empty() ? "" : " ",
                        word.find_first_of("|; ") == std::string::npos ? "" : "'", word);
  return text;
}

// Rows of metrics.jsonl tell whether the coordinator has got all tasks together; of a resumed run those that are new.
class Begun {
 public:
  explicit Begun(std::string path) : path_(std::move(path)), old_(events()) {}
  bool operator()() const { return events() > old_; }

 private:
  int events() const {
    std::ifstream in(path_);
    int n = 0;
    for (std::string line; std::getline(in, line);) n += line.find("\"event\": \"begin\"") != std::string::npos;
    return n;
  }
  std::string path_;
  int old_;
};

Result<ExitCode> launch_run(const LaunchFlags& flags) {
  if (flags.cluster.empty() && flags.workers < 1 && !flags.spec.options.max_workers)
    return fail(ExitCode::kUsage,
                "a run needs at least one worker: --workers N (with --ps M, or with the servers beside the "
                "workers), or --cluster FILE");
  if (!flags.cluster.empty() && (flags.workers || flags.ps))
    return fail(ExitCode::kUsage, "--cluster says which tasks there are; leave out --workers and --ps");
  if (!flags.cluster.empty()) DTRAIN_TRY(flags.spec.not_with_a_file());
  // What is wrong with the run file is said here once, not by every task.
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto definition,
                    node::RunDefinition::read(flags.run.run_file.file, flags.run.run_file.set, files));
  const std::string out = flags.run.out_folder(definition.spec.name);
  const node::OutFolder folder(out);

  std::vector<launch::ReservedPort> ports;
  if (flags.cluster.empty()) {
    DTRAIN_TRY_ASSIGN(ports, launch::reserve_ports(static_cast<size_t>(flags.workers + flags.ps)));
  }
  DTRAIN_TRY_ASSIGN(const cluster::ClusterSpec spec, cluster_of(flags, ports));
  DTRAIN_TRY_ASSIGN(const auto split, node::read_split(definition, spec));
  if (!flags.run.resume) DTRAIN_TRY(folder.create(files));
  if (!flags.cluster.empty()) DTRAIN_TRY(all_local(spec, flags.cluster));

  // The tasks are told their place by flags; what the launcher was given in the environment is not for them.
  for (const char* name : {"CLUSTER", "CLUSTER_SPEC", "PS_HOSTS", "WORKER_HOSTS", "JOB_NAME", "TASK_ID", "SET",
                           "SERVERS", "MAX_WORKERS", "MIN_WORKERS", "START_GRACE", "PS", "PORT_BASE"})
    unsetenv(fmt::format("DTRAIN_{}", name).c_str());
  setenv("OMP_WAIT_POLICY", "passive", 0);  // tasks share the cores: threads that wait must not spin
  std::vector<launch::SupervisedTask> tasks;
  for (const cluster::Task& task : spec.tasks()) {
    if (!spec.listed(task)) break;  // these come last, and are started by whoever wants to join
    const auto rank = static_cast<size_t>(spec.rank_of(task));
    const bool coordinator = task == spec.coordinator();
    std::vector<std::string> words = command_line(flags, spec, task, out, coordinator);
    const int fd = ports.empty() ? -1 : ports[rank].fd;
    if (fd >= 0) words.insert(words.end(), {"--listen_fd", std::to_string(fd)});
    auto child = launch::Child::start(fmt::format("{}/{}", task.job, task.index), words, fd);
    if (!child) {
      for (const auto& t : tasks) t.child.signal(SIGKILL);
      return tl::unexpected(child.error());
    }
    tasks.push_back({std::move(*child), coordinator, !split && !spec.serves(task)});
  }
  for (const launch::ReservedPort& port : ports) close(port.fd);
  if (flags.run.progress != "never")
    fmt::print(stderr, "[launch] dtrain top --ps {} shows how the tasks are doing\n",
               cluster::to_string(spec.address_of(spec.coordinator())));

  if (spec.elastic())
    fmt::print(stderr, "[launch] other workers join with: dtrain run {} {} --job_name worker --task_id N\n",
               flags.run.run_file.file, quoted(cluster_words(flags, spec)));
  launch::SupervisorOptions options;
  options.output = stderr;
  options.others_may_join = spec.elastic();
  options.begun = Begun(folder.metrics());
  return launch::Supervisor(std::move(tasks), options).run();
}

}  // namespace

const Command kLaunch{
    "launch", "start a run's whole cluster on this machine", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<LaunchFlags>();
      flags->run.declare(app);
      flags->spec.declare(app);
      add_flag_value(app, "--workers", flags->workers, "number of workers", {"--num_workers"})
          ->check(CLI::Range(0, 1024));
      add_flag_value(app, "--ps", flags->ps, "number of parameter servers; 0 puts a server beside every worker",
                     {"--num_servers"})
          ->check(CLI::Range(0, 1024));
      add_flag_value(app, "--cluster", flags->cluster, "cluster spec (TOML) whose tasks are all on this machine")
          ->type_name("FILE");
      return [flags] {
        const auto end = launch_run(*flags);
        return end ? *end : report(end.error());
      };
    }};

}  // namespace dtrain::cmd
