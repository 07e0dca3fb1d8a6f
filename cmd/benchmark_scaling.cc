// dtrain benchmark scaling: how a run's throughput grows with workers that are processes on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "base/file_system.h"
#include "benchmark_parts.h"
#include "compute_plan.h"
#include "report_flags.h"
#include "scaling_table.h"
#include "timed_cluster.h"

namespace dtrain::cmd {
namespace {

struct ScalingFlags {
  StepSetup setup;
  ReportFlags report;
  std::vector<int> workers{1, 2};
  std::vector<std::string> placements{"workers"};
  int ps = 1, rounds = 5;
  std::string svg;
};

// One process first: what all others are compared with.
std::vector<ScalingRow> rows_of(const ScalingFlags& flags) {
  std::vector<ScalingRow> rows{{.shape = {}}};
  for (const cluster::Placement placement :
       {cluster::Placement::kWorkers, cluster::Placement::kPs, cluster::Placement::kAll}) {
    const auto& wanted = flags.placements;
    if (std::find(wanted.begin(), wanted.end(), cluster::to_string(placement)) == wanted.end()) continue;
    for (const int workers : flags.workers) {
      ScalingRow row{.shape = {workers, placement, placement == cluster::Placement::kWorkers ? 0 : flags.ps}};
      if (!row.shape.alone()) rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Each in processes of its own, one process too: what ran before leaves no trace in it.
Result<StepTimes> time_row(StepSetup setup, const ClusterShape& shape) {
  setup.workers = shape.workers;
  return time_cluster(setup, shape);
}

Status measure(const ScalingFlags& flags, std::vector<ScalingRow>& rows) {
  for (int round = 0; round < flags.rounds; ++round) {
    for (ScalingRow& row : rows) {
      DTRAIN_TRY_ASSIGN(const StepTimes times, time_row(flags.setup, row.shape));
      row.batch = times.batch;
      row.rates.push_back(times.median_rate());
      row.speed_ups.push_back(row.rates.back() / rows.front().rates.back());
    }
    if (!flags.report.json) fmt::print(stderr, "round {} of {} is done\n", round + 1, flags.rounds);
  }
  return {};
}

// Of as many threads as each row's workers have together, as far as there are cores for them.
figures::Machine measure_peaks(const ScalingFlags& flags, std::vector<ScalingRow>& rows) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::map<int, figures::Machine> by_threads;
  figures::Machine most;
  for (ScalingRow& row : rows) {
    const int threads = std::max(flags.setup.threads, std::min(cores, row.shape.workers * flags.setup.threads));
    if (!by_threads.contains(threads)) by_threads[threads] = measure_machine(threads);
    row.peak_gflops = by_threads[threads].gflops;
    if (threads > most.threads) most = by_threads[threads];
  }
  return most;
}

Status time_scaling(ScalingFlags flags) {
  std::sort(flags.workers.begin(), flags.workers.end());
  flags.workers.erase(std::unique(flags.workers.begin(), flags.workers.end()), flags.workers.end());
  StepSetup& setup = flags.setup;
  DTRAIN_TRY_ASSIGN(const auto then, flags.report.earlier("scaling", setup.run_file.file));
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, read_timed_run(setup, files));
  if (setup.strong && run.spec.train.batch < flags.workers.back())
    return fail(ExitCode::kUsage, fmt::format("--strong: train.batch is {}, too few samples for {} workers",
                                              run.spec.train.batch, flags.workers.back()));
  DTRAIN_TRY_ASSIGN(const double flops, training_flops(run));
  std::vector<ScalingRow> rows = rows_of(flags);
  DTRAIN_TRY(measure(flags, rows));

  figures::Report r{.program = "dtrain " DTRAIN_VERSION, .part = "scaling", .run = setup.run_file.file};
  const std::string batch = setup.strong ? fmt::format("{} samples a step", run.spec.train.batch)
                                         : fmt::format("{} samples a worker and step", run.spec.train.batch);
  r.title = fmt::format("{}: {} ({}), workers of {} thread{}, {} rounds of {} steps", r.run, batch, setup.data_text(),
                        setup.threads, setup.threads == 1 ? "" : "s", flags.rounds, setup.steps);
  r.settings = {{"scaling", setup.strong ? "strong" : "weak"},
                {"batch", run.spec.train.batch},
                {"threads", int64_t{setup.threads}},
                {"steps", int64_t{setup.steps}},
                {"data", setup.data_text()}};
  r.machine = measure_peaks(flags, rows);
  r.figures = scaling_figures(rows, flops);
  if (!flags.svg.empty()) {
    const std::string chart = scaling_chart(
        rows, fmt::format("{}: {} scaling", run.spec.name, setup.strong ? "strong" : "weak"),
        fmt::format("{}, workers of {} thread{}, medians and quartiles of {} rounds; {}, {} cores", batch,
                    setup.threads, setup.threads == 1 ? "" : "s", flags.rounds, r.machine.cpu, r.machine.cores));
    DTRAIN_TRY(under_code(ExitCode::kUsage, files.replace_file(flags.svg, chart)));
  }
  return flags.report.print(r, then, scaling_text(r, rows, flops));
}

}  // namespace

BenchmarkPart benchmark_scaling(CLI::App& app) {
  auto flags = std::make_shared<ScalingFlags>();
  flags->setup.steps = 10;
  CLI::App* part = app.add_subcommand("scaling", "time training steps with more and more workers on this machine");
  flags->setup.declare(*part);
  add_flag_value(*part, "--workers", flags->workers, "numbers of workers, as 1,2,4; one process is always measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_flag_value(*part, "--placement", flags->placements, "where parameters lie: workers, ps, all, or several of them")
      ->delimiter(',')
      ->check(CLI::IsMember({"workers", "ps", "all"}))
      ->capture_default_str();
  add_flag_value(*part, "--ps", flags->ps, "parameter servers, where the placement has any")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_flag_value(*part, "--rounds", flags->rounds, "how often each is measured, in turns")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  add_switch(*part, "--strong", flags->setup.strong, "a step has train.batch samples, however many workers share them");
  add_switch(*part, "--data", flags->setup.own_data, "samples of the run file instead of made-up ones");
  add_flag_value(*part, "--svg", flags->svg, "write a chart of throughput and efficiency")->type_name("FILE");
  flags->report.declare(*part);
  return {part, [flags] {
            const Status done = time_scaling(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
