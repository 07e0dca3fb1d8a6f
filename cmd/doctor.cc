// dtrain doctor: what of this machine would hold a run up or back, and what to do about it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cluster/place/place.h"
#include "cluster_flags.h"
#include "commands.h"
#include "doctor/check.h"
#include "node/arithmetic.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

struct DoctorFlags {
  std::string run_file;
  std::vector<std::string> set;
  ClusterFlags cluster;
  std::string job;
  int task = -1, ps = 0;
  bool json = false;
};

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> all;
  for (char** at = environ; *at; ++at) {
    const std::string line = *at;
    if (const size_t equals = line.find('='); equals != std::string::npos)
      all[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return all;
}

Result<node::RunDefinition> read_run(const DoctorFlags& flags, const FileSystem& files) {
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file, flags.set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  DTRAIN_TRY(run.open_data(files));
  return run;
}

// As `dtrain run` would know its cluster. What is wrong is a finding.
void place(const DoctorFlags& flags, doctor::Surroundings& here) {
  cluster::Given given{.job = flags.job, .task = flags.task, .wishes = {flags.cluster.spec.options, flags.ps, {}}};
  auto spec = flags.cluster.read();
  if (!spec) {
    here.cluster = tl::unexpected(spec.error());
    return;
  }
  given.spec = *spec;
  here.sources = cluster::survey(given, process_environment());
  // Nobody need say which task this is where all of this host are looked at.
  const bool engine = std::any_of(here.sources.begin() + 1, here.sources.end(),
                                  [](const cluster::Finding& f) { return f.says == cluster::Says::kWins; });
  if (given.spec && given.job.empty() && given.task < 0 && !engine) {
    here.cluster = std::move(*given.spec);
  } else {
    auto found = cluster::find_place(given, process_environment());
    if (!found) {
      here.cluster = tl::unexpected(found.error());
    } else if (found->task) {
      here.cluster = std::move(found->task->spec);
      here.self = std::move(found->task->self);
    }
  }
  here.resolve_hosts();
}

// The verdict once for all that a check says, as a column; what to do below.
void print_text(const doctor::Findings& findings) {
  const auto indented = [](std::string text) {
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
      text.insert(at + 1, std::string(21, ' '));
    return text;
  };
  std::string before;
  for (const doctor::Finding& f : findings.all()) {
    fmt::print("{:<5}  {:<13} {}\n", doctor::to_string(f.verdict), f.check == before ? "" : f.check, indented(f.says));
    if (!f.todo.empty()) fmt::print("{:21}→ {}\n", "", indented(f.todo));
    before = f.check;
  }
}

void print_json(const doctor::Findings& findings) {
  nlohmann::ordered_json all{{"program", "dtrain " DTRAIN_VERSION},
                             {"can_start", findings.can_start()},
                             {"findings", nlohmann::json::array()}};
  for (const doctor::Finding& f : findings.all())
    all["findings"].push_back(
        {{"check", f.check}, {"verdict", doctor::to_string(f.verdict)}, {"says", f.says}, {"do", f.todo}});
  fmt::print("{}\n", all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

ExitCode examine(const DoctorFlags& flags) {
  RealFileSystem files;
  doctor::Surroundings here{.files = files, .environment = whole_environment(), .run_file = flags.run_file};
  if (!flags.run_file.empty()) here.run = read_run(flags, files);
  place(flags, here);
  const doctor::Findings findings = doctor::look_at_all(here);
  (flags.json ? print_json : print_text)(findings);
  if (!flags.json)
    fmt::print("{}\n", findings.can_start() ? "a run can start" : "a run cannot start: see what fails above");
  return findings.can_start() ? ExitCode::kDone : ExitCode::kUsage;
}

}  // namespace

const Command kDoctor{
    "doctor", "say what of this machine would hold a run up or back", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<DoctorFlags>();
      app.add_option("RUN", flags->run_file, "the run file (TOML) that is to run here");
      app.add_option("--set", flags->set, "override one key of the run file, as train.batch=64; repeatable")
          ->allow_extra_args(false)
          ->type_name("KEY=VALUE");
      flags->cluster.declare(app);
      add_flag_value(app, "--job_name", flags->job, "the job of the task that this process would be")->type_name("JOB");
      add_flag_value(app, "--task_id", flags->task, "the index of this task in its job", {"--task_index"})
          ->check(CLI::Range(0, 100000));
      add_flag_value(app, "--ps", flags->ps, "so many of the tasks that an engine has started are parameter servers")
          ->check(CLI::Range(0, 65536));
      add_switch(app, "--json", flags->json, "print one line of JSON");
      return [flags] { return examine(*flags); };
    }};

}  // namespace dtrain::cmd
