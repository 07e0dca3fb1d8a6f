// dtrain launch: the whole cluster of a run, as processes on this machine or on others by ssh.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/file_system.h"
#include "base/run_secret.h"
#include "base/sha256.h"
#include "cluster/spec.h"
#include "commands.h"
#include "config/load.h"
#include "drawn_secret.h"
#include "host_check.h"
#include "launch/gathering.h"
#include "launch/shell_quote.h"
#include "launch/supervisor.h"
#include "launch_copies.h"
#include "launch_flags.h"
#include "launch_kubernetes.h"
#include "launch_plan.h"
#include "node/network_split.h"
#include "node/run_definition.h"
#include "process.h"
#include "task_environment.h"

namespace dtrain::cmd {
namespace {

std::vector<std::string> cluster_words(const SpecFlags& flags, const LaunchPlan& plan,
                                       const cluster::ClusterSpec& spec) {
  if (plan.given) return {"--cluster_text", plan.cluster_text};
  std::vector<std::string> words = flags.words();
  words.insert(words.begin(), {"--cluster_spec", cluster::to_string(spec)});
  return words;
}

std::vector<std::string> command_line(const LaunchFlags& flags, const std::vector<std::string>& cluster,
                                      const LaunchPlan::Place& place, const std::string& out, bool again) {
  std::vector<std::string> words{"run", flags.run.run_file.file};
  words.insert(words.end(), cluster.begin(), cluster.end());
  words.insert(words.end(), {"--job_name", place.task.job, "--task_id", std::to_string(place.task.index), "--out", out,
                             "--launched"});
  for (std::string& word : flags.run.words(again)) words.push_back(std::move(word));
  // One task speaks of progress. A task's output is a pipe: only the launcher knows whether a terminal is behind it.
  const bool bar = flags.run.progress == "always" || (flags.run.progress == "auto" && isatty(STDERR_FILENO));
  const char* mode = !place.coordinates || flags.run.progress == "never" ? "never" : bar ? "always" : "lines";
  words.insert(words.end(), {"--progress", mode});
  return words;
}

// What hosts say before there are tasks.
class Notes final : public launch::HostEvents {
 public:
  explicit Notes(launch::TaskOutput& output) : output_(output) {}
  void on_line(uint32_t, const std::string&, bool) override {}
  void on_ready(uint32_t) override {}
  void on_end(uint32_t, const launch::TaskEnd&) override {}
  void on_note(const std::string& host, const std::string& text) override {
    output_.say(fmt::format("{}: {}", host, text));
  }

 private:
  launch::TaskOutput& output_;
};

class Launch {
 public:
  explicit Launch(const LaunchFlags& flags) : flags_(flags) {}

  Result<ExitCode> run() {
    DTRAIN_TRY(flags_.slurm.only_with_slurm());
    if (flags_.slurm.on) return launch_on_slurm(flags_);
    DTRAIN_TRY(flags_.run.check());
    DTRAIN_TRY_ASSIGN(plan_, plan_launch(flags_));
    DTRAIN_TRY(check_flags());
    // What is wrong with the run file is said here once, not by every task.
    DTRAIN_TRY_ASSIGN(const auto definition,
                      node::RunDefinition::read(flags_.run.run_file.file, flags_.run.run_file.set, files_));
    out_ = flags_.run.out_folder(definition.spec.name);
    run_digest_ = to_hex(definition.run_digest);
    launch::TaskOutputOptions shown;
    shown.stream = stderr;
    shown.colour = isatty(STDERR_FILENO) && !std::getenv("NO_COLOR");
    shown.only = flags_.only;
    if (flags_.log_dir != "none") shown.log_folder = flags_.log_dir.empty() ? out_ + "/logs" : flags_.log_dir;
    launch::TaskOutput output(shown);
    DTRAIN_TRY(check_patterns());

    DTRAIN_TRY(check_split(definition));
    plan_.ask_hosts(flags_, out_, run_digest_);
    DTRAIN_TRY_ASSIGN(std::vector<launch::GatheredHost> hosts, gather_hosts(definition, output));
    DTRAIN_TRY(leave_out_missing(hosts, output));
    DTRAIN_TRY_ASSIGN(const cluster::ClusterSpec spec, spec_of(hosts));
    DTRAIN_TRY_ASSIGN(const auto split, node::read_split(definition, spec));
    std::vector<std::string> names;
    for (const LaunchPlan::Place& place : plan_.tasks) names.push_back(name_of(place));
    DTRAIN_TRY(output.open_logs(names));
    DTRAIN_TRY(find_secret(spec));
    DTRAIN_TRY_ASSIGN(auto tasks, tasks_of(spec, hosts, split != nullptr));
    say_where(spec, output);

    launch::SupervisorOptions options;
    options.others_may_join = spec.elastic();
    options.max_restarts = flags_.max_restarts;
    std::vector<launch::Host*> used;
    for (const launch::GatheredHost& host : hosts)
      if (host.host) used.push_back(host.host.get());
    const ExitCode end = launch::Supervisor(std::move(tasks), used, output, options).run();
    const size_t home = plan_.tasks.front().host;
    if (!plan_.hosts[home].here && flags_.run.progress != "never")
      output.say(fmt::format("what the run has written is on {}, in {}", plan_.hosts[home].name,
                             (std::filesystem::path(plan_.hosts[home].preparation.folder) / out_).string()));
    return end;
  }

 private:
  static std::string name_of(const LaunchPlan::Place& place) {
    return fmt::format("{}/{}", place.task.job, place.task.index);
  }

  // A flag that does nothing is a mistake that would look like success.
  Status check_flags() const {
    const PodFlags& pod = flags_.pod;
    if (!pod.image.empty() || !pod.name_space.empty() || !pod.memory.empty() || !pod.out_claim.empty() ||
        !pod.data_claims.empty())
      return fail(ExitCode::kUsage, "--image, --namespace, --memory, --out_claim and --data_claim are of --kubernetes");
    if (plan_.here() &&
        (flags_.sync || flags_.sync_data || !flags_.remote_dir.empty() || !flags_.remote_dtrain.empty()))
      return fail(ExitCode::kUsage,
                  "--sync, --sync_data, --remote_dir and --remote_dtrain are of hosts that are reached by ssh: give "
                  "--hostfile or --cluster");
    if (!flags_.remote_dtrain.empty() && (flags_.sync || flags_.sync_data))
      return fail(ExitCode::kUsage,
                  "--sync brings dtrain to a place of its own: leave out --remote_dtrain, which names another");
    return {};
  }

  // A pattern that shows nothing is a mistake that would look like a silent run.
  Status check_patterns() const {
    for (const std::string& pattern : flags_.only) {
      std::string names;
      bool any = false;
      for (const LaunchPlan::Place& place : plan_.tasks) {
        any = any || launch::is_meant(pattern, name_of(place));
        names += (names.empty() ? "" : ", ") + name_of(place);
      }
      if (!any) return fail(ExitCode::kUsage, fmt::format("--only {}: no task is meant; there are {}", pattern, names));
    }
    return {};
  }

  Result<std::vector<launch::GatheredHost>> gather_hosts(const node::RunDefinition& definition,
                                                         launch::TaskOutput& output) {
    // The tasks are told their place by flags; what the launcher was given in the environment is not for them.
    forget_flags_of_environment();
    launch::GatherOptions options;
    options.ssh = flags_.ssh;
    options.program = own_path();
    options.version = program_version();
    options.machine = machine_name();
    options.remote_program = flags_.remote_dtrain;
    options.prepare_here = check_host;
    options.sync = flags_.sync || flags_.sync_data;
    if (!plan_.here()) options.store = store_path(files_);
    if (options.sync && !plan_.here()) {
      DTRAIN_TRY_ASSIGN(options.copies, launch_copies(flags_, definition));
    }
    Notes notes(output);
    return launch::gather(plan_.hosts, options, notes, clock_);
  }

  // All that is wrong, host by host. With --min_workers a host is left out where only workers would have been on it.
  Status leave_out_missing(std::vector<launch::GatheredHost>& hosts, launch::TaskOutput& output) {
    ExitCode code = ExitCode::kDone;
    std::string text;
    std::vector<bool> missing(hosts.size());
    for (size_t h = 0; h < hosts.size(); ++h) {
      const std::string& name = plan_.hosts[h].name;
      const std::string before = name.empty() ? "" : name + ": ";
      for (const std::string& warning : hosts[h].warnings) output.say(before + warning);
      missing[h] = !hosts[h].problems.empty();
      for (const launch::Problem& problem : hosts[h].problems) {
        code = launch::worse(code, static_cast<ExitCode>(problem.code));
        text += fmt::format("{}{}{}", text.empty() ? "" : "\n", before, problem.text);
      }
    }
    if (text.empty()) return {};
    if (!can_do_without(missing)) return fail(code, plan_.here() ? text : text + "\nnothing was started");
    output.say("these hosts are left out:");
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      output.say("  " + text.substr(begin, end - begin));
      begin = end + 1;
    }
    std::erase_if(plan_.tasks, [&](const LaunchPlan::Place& place) { return missing[place.host]; });
    for (size_t h = 0; h < hosts.size(); ++h)
      if (missing[h]) hosts[h].host.reset();
    if (!plan_.given)
      for (int index = 0; LaunchPlan::Place & place : plan_.tasks)
        if (place.task.job == "worker") place.task.index = index++;
    return look_again(hosts);
  }

  // Where the coordinator is another task now, its host has not been asked whether it can be that.
  Status look_again(std::vector<launch::GatheredHost>& hosts) {
    if (plan_.tasks.front().coordinates) return {};
    plan_.tasks.front().coordinates = true;
    plan_.ask_hosts(flags_, out_, run_digest_);
    const size_t h = plan_.tasks.front().host;
    launch::Preparation& question = plan_.hosts[h].preparation;
    question.alone = hosts[h].alone;
    launch::ask_again(hosts[h], question);
    if (hosts[h].problems.empty()) return {};
    const launch::Problem& problem = hosts[h].problems.front();
    return fail(static_cast<ExitCode>(problem.code), fmt::format("{}: {}", plan_.hosts[h].name, problem.text));
  }

  bool can_do_without(const std::vector<bool>& missing) const {
    const auto least = plan_.given ? plan_.given->min_workers() : flags_.spec.options.min_workers;
    if (!least) return false;
    int left = 0;
    for (const LaunchPlan::Place& place : plan_.tasks) {
      if (!missing[place.host]) left += place.computes;
      // A cluster file says where parameters lie; numbers of tasks leave that open until here.
      if (missing[place.host] && (place.task.job == "ps" || (plan_.given && place.serves))) return false;
    }
    return left >= *least;
  }

  // Takes the ports that hosts have reserved.
  Result<cluster::ClusterSpec> spec_of(const std::vector<launch::GatheredHost>& hosts) {
    std::vector<size_t> next(hosts.size());
    for (LaunchPlan::Place& place : plan_.tasks)
      place.address.port = static_cast<uint16_t>(hosts[place.host].host->prepared()->ports[next[place.host]++]);
    return spec_of_plan(plan_);
  }

  // What the run cannot be on such a cluster is said before any host is asked: ports do not matter for that.
  Status check_split(const node::RunDefinition& definition) {
    LaunchPlan stand_in = plan_;
    for (LaunchPlan::Place& place : stand_in.tasks) place.address.port = static_cast<uint16_t>(place.number + 1);
    DTRAIN_TRY_ASSIGN(const cluster::ClusterSpec spec, spec_of_plan(stand_in));
    DTRAIN_TRY(node::read_split(definition, spec));
    return {};
  }

  Result<cluster::ClusterSpec> spec_of_plan(const LaunchPlan& plan) {
    if (plan.given) return *plan.given;
    std::string ps, workers;
    for (const LaunchPlan::Place& place : plan.tasks) {
      std::string& list = place.task.job == "ps" ? ps : workers;
      list += (list.empty() ? "" : ",") + cluster::to_string(place.address);
    }
    // Where all that is there holds parameters nothing can be done without; what could, was left out before.
    if (ps.empty() && !spec_flags_.options.max_workers) spec_flags_.options.min_workers.reset();
    return cluster::parse_host_lists(ps, workers, spec_flags_.options);
  }

  // One of the user's, or one that nobody has seen. Whoever wants to join by hand needs it in a file.
  Status find_secret(const cluster::ClusterSpec& spec) {
    secret_file_ = flags_.secret.file;
    if (secret_file_.empty()) {
      secret_ = draw_secret();
      if (!spec.elastic()) return {};
      secret_file_ = drawn_secret_file(out_);
      DTRAIN_TRY(under_code(ExitCode::kUsage, files_.make_directories(out_)));
      return write_secret(secret_file_, secret_);
    }
    DTRAIN_TRY(flags_.secret.read());  // it is one, and nobody else can read it
    DTRAIN_TRY_ASSIGN(secret_, under_code(ExitCode::kUsage, files_.read_file(secret_file_, RunSecret::kLongest + 2)));
    return {};
  }

  Result<std::vector<launch::SupervisedTask>> tasks_of(const cluster::ClusterSpec& spec,
                                                       const std::vector<launch::GatheredHost>& hosts, bool split) {
    const std::vector<std::string> cluster = cluster_words(spec_flags_, plan_, spec);
    std::vector<launch::SupervisedTask> tasks;
    for (const LaunchPlan::Place& place : plan_.tasks) {
      const auto beside = std::count_if(plan_.tasks.begin(), plan_.tasks.end(),
                                        [&](const LaunchPlan::Place& p) { return p.host == place.host; });
      launch::SupervisedTask task;
      task.start.task = place.number;
      task.start.name = name_of(place);
      task.start.words = command_line(flags_, cluster, place, out_, false);
      task.again_words = command_line(flags_, cluster, place, out_, true);
      DTRAIN_TRY_ASSIGN(task.start.environment, task_environment(flags_.environment));
      // Tasks that share cores: threads that wait must not spin.
      if (beside > 1 && !(plan_.hosts[place.host].here && std::getenv("OMP_WAIT_POLICY")))
        task.start.environment.insert(task.start.environment.begin(), "OMP_WAIT_POLICY=passive");
      task.start.secret = launch::to_digits(secret_);
      task.host = hosts[place.host].host.get();
      task.coordinator = place.task == spec.coordinator();
      task.expendable = !split && !spec.serves(place.task);
      tasks.push_back(std::move(task));
    }
    return tasks;
  }

  void say_where(const cluster::ClusterSpec& spec, launch::TaskOutput& output) const {
    if (flags_.run.progress != "never")
      output.say(fmt::format("dtrain top --ps {} shows how the tasks are doing",
                             cluster::to_string(spec.address_of(spec.coordinator()))));
    if (!spec.elastic()) return;
    std::vector<std::string> words =
        plan_.given ? std::vector<std::string>{"--cluster", flags_.cluster} : cluster_words(spec_flags_, plan_, spec);
    output.say(fmt::format("other workers join with: dtrain run {} {} --secret_file {} --job_name worker --task_id N",
                           launch::shell_quote(flags_.run.run_file.file), launch::shell_quote(words),
                           launch::shell_quote(secret_file_)));
  }

  const LaunchFlags& flags_;
  RealFileSystem files_;
  SteadyClock clock_;
  SpecFlags spec_flags_ = flags_.spec;
  LaunchPlan plan_;
  std::string out_, run_digest_, secret_, secret_file_;
};

}  // namespace

const Command kLaunch{"launch", "start a run's whole cluster, on this machine or on others by ssh",
                      [](CLI::App& app) -> std::function<ExitCode()> {
                        auto flags = std::make_shared<LaunchFlags>();
                        flags->declare(app);
                        return [flags] {
                          const auto end = flags->kubernetes ? launch_on_kubernetes(*flags) : Launch(*flags).run();
                          return end ? *end : report(end.error());
                        };
                      }};

}  // namespace dtrain::cmd
