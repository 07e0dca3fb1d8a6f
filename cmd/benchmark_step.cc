// dtrain benchmark step: how fast a training step is.
#include "benchmark_parts.h"

#include <fmt/format.h>
#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cluster_flags.h"
#include "flags.h"
#include "launch/free_ports.h"
#include "launch/local_host.h"
#include "launch/supervisor.h"
#include "node/arithmetic.h"
#include "node/cluster_run.h"
#include "node/coordinator_setup.h"
#include "node/fixed_feed.h"
#include "node/solo_run.h"
#include "node/step_timer.h"
#include "observe/task_log.h"
#include "process.h"
#include "step_profile.h"

namespace dtrain::cmd {
namespace {

struct StepFlags {
  RunFileFlags run_file;
  int threads = 1, steps = 20, warmup = 3, workers = 1;
  bool json = false, profile = false;
  // Of a task that the benchmark has started.
  ClusterFlags cluster;
  int task = -1;
  std::vector<int> listen_fds;
};

struct Figures {
  double min_ms = 0, median_ms = 0, samples_per_s = 0;  // from the median
  int64_t peak_rss_mb = 0;                              // of the largest process
  int64_t batch = 0;                                    // samples of a step
  std::string profile;                                  // text, or JSON
};

Figures figures(std::vector<Nanoseconds> steps, int64_t batch) {
  std::sort(steps.begin(), steps.end());
  Figures f;
  f.min_ms = static_cast<double>(steps.front()) / kMillisecond;
  f.median_ms = static_cast<double>(steps[steps.size() / 2]) / kMillisecond;
  f.samples_per_s = static_cast<double>(batch) / (f.median_ms / 1e3);
  f.peak_rss_mb = peak_rss_mib();
  f.batch = batch;
  return f;
}

std::string json_line(const Figures& f, const StepFlags& flags) {
  return fmt::format(
      R"({{"program": "dtrain {}", "run": {}, "batch": {}, "threads": {}, "workers": {}, "steps": {}, "min_ms": {:.3f}, )"
      R"("median_ms": {:.3f}, "samples_per_s": {:.2f}, "peak_rss_mb": {}}})",
      DTRAIN_VERSION, nlohmann::json(flags.run_file.file).dump(), f.batch, flags.threads, flags.workers, flags.steps,
      f.min_ms, f.median_ms, f.samples_per_s, f.peak_rss_mb);
}

// The run as the benchmark wants it: every worker has train.batch samples, one micro-batch each unless the file says
// otherwise.
Result<node::RunDefinition> read_run(const StepFlags& flags, const FileSystem& files) {
  std::vector<std::string> set = flags.run_file.set;
  set.push_back(fmt::format("train.threads={}", flags.threads));
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  DTRAIN_TRY(run.open_data(files));
  if (!run.spec.train.micro_batch) run.spec.train.micro_batch = run.spec.train.batch;
  run.spec.train.batch *= flags.workers;
  return run;
}

// This process as one task, or as all of them; the coordinator's steps are timed.
Result<Figures> time_here(const StepFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, read_run(flags, files));
  DTRAIN_TRY_ASSIGN(const auto given, flags.cluster.read());
  const cluster::ClusterSpec spec = given ? *given : cluster::ClusterSpec::local();
  const cluster::Task self = spec.task_of(std::max(flags.task, 0));
  catch_signals();
  SteadyClock clock;
  observe::TaskLog log(stderr, "", LogLevel::kWarning);
  node::StepTimer timer(clock, flags.warmup);

  node::StartPlan plan;
  plan.steps = flags.warmup + flags.steps;
  plan.micro_batches = static_cast<uint32_t>(run.spec.train.batch / *run.spec.train.micro_batch);
  plan.threads = static_cast<uint32_t>(flags.threads);
  node::TaskSetup setup;
  setup.self = static_cast<wire::Rank>(spec.rank_of(self));
  setup.incarnation = random_incarnation();
  setup.threads = plan.threads;
  if (self == spec.coordinator()) {
    setup.coordinator = node::coordinator_options(run, plan, "");
    setup.events = &timer;
  }
  // Loaded here, so that data that cannot be read is an error of the command.
  DTRAIN_TRY_ASSIGN(auto feed, node::FixedFeed::load(run, plan.micro_batches));
  setup.feed = [&feed](const wire::Begin&) { return std::move(feed); };
  worker::OpProfile profile(clock, flags.warmup * static_cast<int64_t>(plan.micro_batches));
  if (flags.profile) setup.profile = &profile;
  ExitCode end;
  if (!given) {
    end = node::run_solo(run, std::move(setup), files, clock, log, interrupts);
  } else {
    DTRAIN_TRY_ASSIGN(
        end, node::run_in_cluster(run, spec, std::move(setup), {.listen_fds = flags.listen_fds, .computes = true},
                                  files, clock, log, interrupts));
  }
  if (end != ExitCode::kDone) return fail(end, "the benchmark's run did not end well");
  if (timer.steps().empty()) return Figures{.peak_rss_mb = peak_rss_mib()};
  Figures f = figures(timer.steps(), run.spec.train.batch);
  if (flags.profile) {
    omp_set_num_threads(flags.threads);
    const ops::cpu::MachinePeak peak = ops::cpu::measure_peak();
    f.profile = (flags.json ? profile_json : profile_text)(profile, *run.network, peak);
  }
  return f;
}

// Starts the workers, each with a server beside it, and gathers what they print.
Result<Figures> time_cluster(const StepFlags& flags) {
  launch::LocalHost host("", own_path(), launch::reserve_ports);
  launch::Preparation preparation;
  preparation.tasks.resize(static_cast<size_t>(flags.workers));
  for (int w = 0; w < flags.workers; ++w) preparation.tasks[static_cast<size_t>(w)].id = static_cast<uint32_t>(w);
  host.prepare(preparation);
  if (!host.prepared()->problems.empty()) return fail(ExitCode::kUsage, host.prepared()->problems.front().text);
  std::string hosts;
  for (const auto& port : host.prepared()->ports)
    hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", port);
  std::vector<launch::SupervisedTask> tasks;
  for (int w = 0; w < flags.workers; ++w) {
    std::vector<std::string> words{"benchmark",      "step", flags.run_file.file, "--json",
                                   "--worker_hosts", hosts,  "--task_id",         std::to_string(w)};
    for (const std::string& set : flags.run_file.set) words.insert(words.end(), {"--set", set});
    for (const auto& [flag, value] : {std::pair("--threads", flags.threads),
                                      {"--steps", flags.steps},
                                      {"--warmup", flags.warmup},
                                      {"--workers", flags.workers}})
      words.insert(words.end(), {flag, std::to_string(value)});
    launch::SupervisedTask task;
    task.start = {static_cast<uint32_t>(w), fmt::format("worker/{}", w), words, {}, ""};
    task.host = &host;
    task.coordinator = w == 0;
    tasks.push_back(std::move(task));
  }

  char* text = nullptr;
  size_t size = 0;
  launch::TaskOutputOptions shown;
  shown.stream = open_memstream(&text, &size);
  launch::TaskOutput lines_of_tasks(shown);
  const ExitCode end = launch::Supervisor(std::move(tasks), {&host}, lines_of_tasks, {.begun = true}).run();
  std::fclose(shown.stream);
  const std::string output(text, size);
  std::free(text);
  if (end != ExitCode::kDone) return fail(end, output);

  Figures f;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto brace = line.find('{');
    const auto json = nlohmann::json::parse(brace == std::string::npos ? "" : line.substr(brace), nullptr, false);
    if (json.is_discarded()) continue;
    f.peak_rss_mb = std::max(f.peak_rss_mb, json.value("peak_rss_mb", int64_t{0}));
    if (json.value("min_ms", 0.0) <= 0) continue;
    f.min_ms = json["min_ms"];
    f.median_ms = json["median_ms"];
    f.samples_per_s = json["samples_per_s"];
    f.batch = json["batch"];
  }
  return f;
}

Status time_step(const StepFlags& flags) {
  const bool child = flags.task >= 0;
  if (flags.profile && flags.workers > 1)
    return fail(ExitCode::kUsage, "--profile is of one process: leave out --workers");
  DTRAIN_TRY_ASSIGN(const Figures f, flags.workers > 1 && !child ? time_cluster(flags) : time_here(flags));
  if (flags.profile)
    fmt::print("{}\n", f.profile);
  else if (flags.json)
    fmt::print("{}\n", json_line(f, flags));
  else
    fmt::print(
        "{}: {} samples a step, {} worker{} of {} thread{}: fastest {:.3f} ms, median {:.3f} ms of {} steps, {:.0f} "
        "samples/s, peak memory {} MiB\n",
        flags.run_file.file, f.batch, flags.workers, flags.workers == 1 ? "" : "s", flags.threads,
        flags.threads == 1 ? "" : "s", f.min_ms, f.median_ms, flags.steps, f.samples_per_s, f.peak_rss_mb);
  return {};
}

}  // namespace

BenchmarkPart benchmark_step(CLI::App& app) {
  auto flags = std::make_shared<StepFlags>();
  CLI::App* step = app.add_subcommand("step", "time whole training steps on one fixed batch");
  flags->run_file.declare(*step);
  add_flag_value(*step, "--threads", flags->threads, "threads for one micro-batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_flag_value(*step, "--steps", flags->steps, "steps to time")->check(CLI::Range(1, 1000000))->capture_default_str();
  add_flag_value(*step, "--warmup", flags->warmup, "steps before that")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  add_flag_value(*step, "--workers", flags->workers,
                 "worker processes with servers beside them, train.batch samples each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_switch(*step, "--profile", flags->profile,
             "print where the time goes, by op and by layer, beside the machine's peak");
  add_switch(*step, "--json", flags->json, "print one line of JSON");
  // For the tasks that the benchmark starts itself.
  step->add_option("--worker_hosts", flags->cluster.worker_hosts, "")->group("");
  step->add_option("--task_id", flags->task, "")->group("");
  step->add_option("--listen_fd", flags->listen_fds, "")->allow_extra_args(false)->group("");
  return {step, [flags] {
            const Status done = time_step(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
