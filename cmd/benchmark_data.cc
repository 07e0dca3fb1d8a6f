// dtrain benchmark data: whether a run's data can be read as fast as its steps take them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <thread>

#include "benchmark_parts.h"
#include "figures/reader_verdict.h"
#include "node/data_feed.h"
#include "process.h"
#include "report_flags.h"
#include "step_timing.h"

namespace dtrain::cmd {
namespace {

struct DataFlags {
  StepSetup setup;
  ReportFlags report;
  int rounds = 6;
};

struct Rates {
  double opening = 0;                            // seconds
  std::vector<double> first, again, step, both;  // samples/s
};

// As fast as the reader gives them, the micro-batches of so many steps.
Result<double> read_steps(node::DataFeed& feed, const node::RunDefinition& run, int64_t first, int steps) {
  const auto micro_batches = static_cast<uint32_t>(run.spec.train.batch / *run.spec.train.micro_batch);
  SteadyClock clock;
  const Instant begin = clock.now();
  for (int s = 0; s < steps; ++s) {
    worker::Work work;
    work.kind = wire::StepKind::kTrain;
    work.step = first + s;
    work.node = {0, micro_batches};
    for (uint32_t m = 0; m < micro_batches; ++m) DTRAIN_TRY(feed.take(work, m));
  }
  return static_cast<double>(steps * run.spec.train.batch) * kSecond / static_cast<double>(clock.now() - begin);
}

Result<Rates> measure(const DataFlags& flags, const node::RunDefinition& run) {
  const auto micro_batches = static_cast<uint32_t>(run.spec.train.batch / *run.spec.train.micro_batch);
  const int64_t epoch = std::max<int64_t>(run.train->size() / run.spec.train.batch, 1);
  const int steps = static_cast<int>(std::min<int64_t>(flags.setup.steps, epoch));
  Rates rates;
  for (int round = 0; round < flags.rounds; ++round) {
    // A feed of its own each time: nothing is read ahead when the clock starts.
    node::DataFeed feed(run, micro_batches, 0);
    DTRAIN_TRY_ASSIGN(const double read, read_steps(feed, run, 0, steps));
    (round == 0 ? rates.first : rates.again).push_back(read);
    if (round == 0) continue;
    for (const Feed of : {Feed::kFixedBatch, Feed::kReader}) {
      DTRAIN_TRY_ASSIGN(const StepTimes times, time_steps(run, flags.setup, {}, of));
      (of == Feed::kFixedBatch ? rates.step : rates.both).push_back(times.median_rate());
    }
  }
  return rates;
}

Status time_data(DataFlags flags) {
  StepSetup& setup = flags.setup;
  setup.own_data = true;
  DTRAIN_TRY_ASSIGN(const auto then, flags.report.earlier("data", setup.run_file.file));
  RealFileSystem files;
  SteadyClock clock;
  const Instant begin = clock.now();
  DTRAIN_TRY_ASSIGN(const auto run, read_timed_run(setup, files));
  const double opening = static_cast<double>(clock.now() - begin) / kSecond;
  catch_signals();
  DTRAIN_TRY_ASSIGN(Rates rates, measure(flags, run));

  const data::Dataset& data = *run.train;
  const double bytes = 4.0 * static_cast<double>(data.sample_shape().elements() + data.labels().shape.elements());
  figures::Report r{.program = "dtrain " DTRAIN_VERSION, .part = "data", .run = setup.run_file.file};
  r.machine = measure_machine(setup.threads);
  r.title = fmt::format(
      "{}: {} training samples of {:.1f} kB as the network takes them, opened in {:.2f} s; {} to read "
      "them, {} to compute; batches of {}",
      r.run, data.size(), bytes / 1e3, opening,
      run.train_threads == 1 ? "1 thread" : fmt::format("{} threads", run.train_threads),
      setup.threads == 1 ? "1 thread" : fmt::format("{} threads", setup.threads), run.spec.train.batch);
  const auto add = [&](const char* name, const char* text, const std::vector<double>& values) {
    r.figures.push_back(figures::summarise({.name = name, .text = text, .unit = "samples/s"}, values));
  };
  std::vector<double> megabytes;
  for (const double rate : rates.again) megabytes.push_back(rate * bytes / 1e6);
  add("first", "the reader, the first time", rates.first);
  add("reader", "the reader, the same again", rates.again);
  r.figures.push_back(figures::summarise({.name = "bytes",
                                          .text = "the same in bytes",
                                          .unit = "MB/s",
                                          .peak = r.machine.gbytes * 1e3,
                                          .peak_of = "memory"},
                                         megabytes));
  add("step", "a training step without the reader", rates.step);
  add("both", "a training step with the reader", rates.both);
  r.settings = {{"batch", run.spec.train.batch},
                {"threads", int64_t{setup.threads}},
                {"data_threads", static_cast<int64_t>(run.train_threads)}};
  const double ratio = r.find("reader")->median / r.find("step")->median;
  r.also = {{"samples", data.size()}, {"sample_bytes", bytes}, {"opening_s", opening}, {"ratio", ratio}};
  r.verdict = figures::reader_verdict(ratio, run.train_threads, std::max(1u, std::thread::hardware_concurrency()));
  return flags.report.print(r, then);
}

}  // namespace

BenchmarkPart benchmark_data(CLI::App& app) {
  auto flags = std::make_shared<DataFlags>();
  CLI::App* part = app.add_subcommand("data", "time the reading of a run's data beside its training step");
  flags->setup.declare(*part);
  add_flag_value(*part, "--rounds", flags->rounds, "how often each is measured, in turns; the first only reads")
      ->check(CLI::Range(2, 10000))
      ->capture_default_str();
  flags->report.declare(*part);
  return {part, [flags] {
            const Status done = time_data(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
