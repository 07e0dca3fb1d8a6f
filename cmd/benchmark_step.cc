// dtrain benchmark step: how fast a training step is.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <thread>

#include "benchmark_parts.h"
#include "cluster_flags.h"
#include "compute_plan.h"
#include "process.h"
#include "report_flags.h"
#include "step_profile.h"
#include "step_timing.h"
#include "timed_cluster.h"

namespace dtrain::cmd {
namespace {

struct StepFlags {
  StepSetup setup;
  ReportFlags report;
  bool profile = false;
  // Of a task that a benchmark has started.
  ClusterFlags cluster;
  std::string job = "worker";
  int task = -1;
  std::vector<int> listen_fds;
};

// A task that a benchmark has started: says its times to that.
Status time_as_task(const StepFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, read_timed_run(flags.setup, files));
  TimedTask task{.listen_fds = flags.listen_fds};
  DTRAIN_TRY_ASSIGN(task.spec, flags.cluster.read());
  if (!task.spec) return fail(ExitCode::kUsage, "--task_id is for tasks that the benchmark starts itself");
  DTRAIN_TRY_ASSIGN(task.self, task.spec->find(flags.job, flags.task));
  catch_signals();
  DTRAIN_TRY_ASSIGN(const StepTimes times, time_steps(run, flags.setup, task));
  print_times(times);
  return {};
}

Status print_profile(const StepFlags& flags) {
  if (flags.setup.workers > 1) return fail(ExitCode::kUsage, "--profile is of one process: leave out --workers");
  if (!flags.report.compare.empty())
    return fail(ExitCode::kUsage, "--profile has no figures to compare: leave out one of --profile and --compare");
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, read_timed_run(flags.setup, files));
  catch_signals();
  SteadyClock clock;
  worker::OpProfile profile(clock, flags.setup.warmup, run.spec.train.batch / *run.spec.train.micro_batch);
  DTRAIN_TRY(time_steps(run, flags.setup, {}, Feed::kFixedBatch, &profile));
  omp_set_num_threads(flags.setup.threads);
  const ops::cpu::MachinePeak peak = ops::cpu::measure_peak();
  fmt::print("{}\n", (flags.report.json ? profile_json : profile_text)(profile, *run.network, peak));
  return {};
}

figures::Report make_report(const StepFlags& flags, const StepTimes& times, double flops, figures::Machine machine) {
  const StepSetup& setup = flags.setup;
  const auto batch = static_cast<double>(times.batch);
  std::vector<double> ms, rates, gflops;
  for (const Nanoseconds step : times.steps) {
    ms.push_back(static_cast<double>(step) / kMillisecond);
    rates.push_back(batch / ms.back() * 1e3);
    gflops.push_back(flops * batch / (ms.back() * 1e6));
  }
  figures::Report r{.program = "dtrain " DTRAIN_VERSION, .part = "step", .run = setup.run_file.file};
  r.machine = std::move(machine);
  r.title = fmt::format("{}: {} samples a step ({}), {} worker{} of {} thread{}, {} steps, peak memory {} MiB", r.run,
                        times.batch, setup.data_text(), setup.workers, setup.workers == 1 ? "" : "s", setup.threads,
                        setup.threads == 1 ? "" : "s", setup.steps, times.peak_rss_mib);
  r.figures.push_back(figures::summarise({.name = "step", .text = "a step", .unit = "ms", .less_is_better = true}, ms));
  r.figures.push_back(figures::summarise({.name = "samples", .text = "throughput", .unit = "samples/s"}, rates));
  if (flops > 0)
    r.figures.push_back(figures::summarise({.name = "products",
                                            .text = "convolutions and products",
                                            .unit = "GFLOP/s",
                                            .peak = r.machine.gflops,
                                            .peak_of = "large matrix product"},
                                           gflops));
  r.settings = {{"batch", times.batch},
                {"threads", int64_t{setup.threads}},
                {"workers", int64_t{setup.workers}},
                {"data", setup.data_text()}};
  r.also = {{"batch", times.batch},
            {"threads", int64_t{setup.threads}},
            {"workers", int64_t{setup.workers}},
            {"steps", int64_t{setup.steps}},
            {"min_ms", r.figures[0].best},
            {"median_ms", r.figures[0].median},
            {"samples_per_s", r.figures[1].median},
            {"peak_rss_mb", times.peak_rss_mib}};
  return r;
}

Status time_step(const StepFlags& flags) {
  if (flags.task >= 0) return time_as_task(flags);
  if (flags.profile) return print_profile(flags);
  const StepSetup& setup = flags.setup;
  DTRAIN_TRY_ASSIGN(const auto then, flags.report.earlier("step", setup.run_file.file));
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, read_timed_run(setup, files));
  StepTimes times;
  if (setup.workers > 1) {
    DTRAIN_TRY_ASSIGN(times, time_cluster(setup, {.workers = setup.workers}));
  } else {
    catch_signals();
    DTRAIN_TRY_ASSIGN(times, time_steps(run, setup, {}));
  }
  DTRAIN_TRY_ASSIGN(const double flops, training_flops(run));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const figures::Machine machine =
      measure_machine(std::clamp(setup.workers * setup.threads, 1, std::max(cores, setup.threads)));
  return flags.report.print(make_report(flags, times, flops, machine), then);
}

}  // namespace

BenchmarkPart benchmark_step(CLI::App& app) {
  auto flags = std::make_shared<StepFlags>();
  CLI::App* step = app.add_subcommand("step", "time whole training steps on one fixed batch");
  flags->setup.declare(*step);
  add_flag_value(*step, "--workers", flags->setup.workers,
                 "worker processes with servers beside them, train.batch samples each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_switch(*step, "--data", flags->setup.own_data, "samples of the run file instead of made-up ones");
  add_switch(*step, "--profile", flags->profile,
             "print where the time goes, by op and by layer, beside the machine's peak");
  flags->report.declare(*step);
  // For the tasks that a benchmark starts itself.
  step->add_flag("--strong", flags->setup.strong, "")->group("");
  step->add_option("--ps_hosts", flags->cluster.ps_hosts, "")->group("");
  step->add_option("--worker_hosts", flags->cluster.worker_hosts, "")->group("");
  step->add_option("--servers", flags->cluster.spec.options.servers, "")->group("");
  step->add_option("--job_name", flags->job, "")->group("");
  step->add_option("--task_id", flags->task, "")->group("");
  step->add_option("--listen_fd", flags->listen_fds, "")->allow_extra_args(false)->group("");
  return {step, [flags] {
            const Status done = time_step(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
