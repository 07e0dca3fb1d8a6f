// dtrain simulate: how a run would scale, by running its real state machines under a virtual clock.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compute_plan.h"
#include "flags.h"
#include "host_costs.h"
#include "node/arithmetic.h"
#include "node/network_split.h"
#include "node/run_definition.h"
#include "node/server_pool.h"
#include "quantity.h"
#include "sim/scale/cluster.h"

namespace dtrain::cmd {
namespace {

using sim::scale::HostCosts;
using sim::scale::Model;
using sim::scale::Outcome;

struct SimulateFlags {
  RunFileFlags run_file;
  std::vector<uint32_t> workers{1, 4, 16, 64}, ps{0};
  std::string bandwidth = "25Gbps", latency = "50us", compute = "measured";
  std::vector<std::string> costs;
  int threads = 1, warmup = 2, steps = 3;
  uint32_t shared_cores = 0;
  bool json = false;
};

struct Row {
  uint32_t workers = 0, ps = 0;
  Outcome outcome;
  double step_ms = 0, samples_per_s = 0, speed_up = 0, efficiency = 0;
};

std::string costs_text(const HostCosts& c) {
  return fmt::format(
      "{:.1f} us a message, {:.1f} us a write, receive {:.1f} GB/s, send {:.1f} GB/s, add {:.1f} GB/s, "
      "update {:.1f} GB/s",
      c.message / 1e3, c.write / 1e3, 1 / c.receive, 1 / c.send, 1 / c.add, 1 / c.update);
}

nlohmann::json to_json(const Row& r) {
  const sim::scale::Utilisation& b = r.outcome.busy;
  std::vector<double> steps;
  for (const Nanoseconds step : r.outcome.steps) steps.push_back(static_cast<double>(step) / kMillisecond);
  return {{"workers", r.workers},
          {"ps", r.ps},
          {"step_ms", r.step_ms},
          {"steps_ms", steps},
          {"samples_per_s", r.samples_per_s},
          {"speed_up", r.speed_up},
          {"efficiency", r.efficiency},
          {"bottleneck", bottleneck(b)},
          {"busy",
           {{"compute", b.compute},
            {"server_in", b.server_in},
            {"server_out", b.server_out},
            {"worker_in", b.worker_in},
            {"worker_out", b.worker_out},
            {"server_loop", b.server_loop},
            {"server_sums", b.sums},
            {"worker_loop", b.worker_loop},
            {"coordinator", b.coordinator}}},
          {"messages", r.outcome.messages},
          {"server_sums_mib", static_cast<double>(r.outcome.largest_pool) / (1 << 20)}};
}

void print_heading() {
  fmt::print("{:>7} {:>5} {:>11} {:>11} {:>9} {:>6}  {:<16} {:^32}\n", "", "", "", "", "", "", "",
             "busy: compute, server in/out/loop, worker in/out/loop, coordinator");
  fmt::print("{:>7} {:>5} {:>11} {:>11} {:>9} {:>6}  {:<16}\n", "workers", "ps", "step ms", "samples/s", "speed-up",
             "eff.", "bottleneck");
}

void print_row(const Row& r) {
  const sim::scale::Utilisation& b = r.outcome.busy;
  const auto percent = [](double x) { return static_cast<int>(x * 100 + 0.5); };
  fmt::print(
      "{:>7} {:>5} {:>11.3f} {:>11.1f} {:>9.2f} {:>5.1f}%  {:<16} {:>3}%  {:>3} {:>3} {:>3}%  {:>3} {:>3} {:>3}%  "
      "{:>3}%\n",
      r.workers, r.ps == 0 ? "-" : std::to_string(r.ps), r.step_ms, r.samples_per_s, r.speed_up, r.efficiency * 100,
      bottleneck(b), percent(b.compute), percent(b.server_in), percent(b.server_out), percent(b.server_loop),
      percent(b.worker_in), percent(b.worker_out), percent(b.worker_loop), percent(b.coordinator));
  std::fflush(stdout);
}

Result<Model> make_model(const SimulateFlags& flags, node::RunDefinition& run) {
  Model model;
  if (run.optimizer.optimizer->full_batch())
    return fail(ExitCode::kUsage, "the optimizer lbfgs cannot be simulated, only those that make a step of a batch");
  if (node::names_tasks(*run.network))
    return fail(ExitCode::kUsage,
                "a network whose layers lie on several tasks cannot be simulated: take the keys 'device' out, which "
                "simulates the whole network on each worker");
  if (!run.network->lookups().empty())
    return fail(ExitCode::kUsage,
                fmt::format("'{}' is a sparse table, which cannot be simulated: how many rows travel depends on the "
                            "data; without 'sparse' all of it travels",
                            run.network->parameters()[static_cast<size_t>(run.network->lookups()[0].table)].name));
  const consistency::Mode& mode = run.rule->mode();
  if (!mode.lockstep || mode.needed > 0 || mode.stride > 1)
    return fail(ExitCode::kUsage,
                fmt::format("train.consistency = \"{}\" cannot be simulated, only sync and stale; --set "
                            "train.consistency=sync shows what waiting for all would cost",
                            mode.name));
  if (run.spec.train.compression || run.spec.train.compress_pulls)
    return fail(
        ExitCode::kUsage,
        "train.compression and train.compress_pulls cannot be simulated: leave them out; what would be as much as "
        "they save is a link of a higher --bandwidth");
  model.rule = run.rule;
  model.optimizer = run.optimizer.optimizer;
  model.clips = run.optimizer.clip_norm.has_value();
  model.parameters = run.network->parameters();
  model.pool_bytes = node::server_pool_bytes;
  DTRAIN_TRY_ASSIGN(model.link.bytes_per_second, parse_rate("--bandwidth", flags.bandwidth));
  DTRAIN_TRY_ASSIGN(model.link.latency, parse_time("--latency", flags.latency));
  DTRAIN_TRY_ASSIGN(model.costs, measure_host_costs(*model.optimizer));
  for (const std::string& cost : flags.costs) DTRAIN_TRY(set_cost(model.costs, cost));

  const int64_t batch = run.spec.train.batch, micro = run.spec.train.micro_batch.value_or(batch);
  model.micro_batches = static_cast<uint32_t>(batch / micro);
  if (flags.compute == "measured") {
    RealFileSystem files;
    DTRAIN_TRY(run.open_data(files));
    DTRAIN_TRY_ASSIGN(model.compute, measure_compute(run, micro, flags.threads));
  } else {
    DTRAIN_TRY_ASSIGN(const Nanoseconds time, parse_time("--compute", flags.compute, Bare::kSeconds));
    if (time < model.micro_batches) return fail(ExitCode::kUsage, "--compute: a step takes some time");
    DTRAIN_TRY_ASSIGN(model.compute, assume_compute(run, micro, time / model.micro_batches));
  }
  model.warmup = flags.warmup;
  model.steps = flags.steps;
  model.shared_cores = flags.shared_cores;
  return model;
}

Status simulate_sizes(const SimulateFlags& flags) {
  if (flags.ps.size() != 1 && flags.ps.size() != flags.workers.size())
    return fail(ExitCode::kUsage, fmt::format("--ps has {} numbers and --workers {}: give one, or one for each size",
                                              flags.ps.size(), flags.workers.size()));
  RealFileSystem files;
  std::vector<std::string> set = flags.run_file.set;
  set.push_back(fmt::format("train.threads={}", flags.threads));
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  DTRAIN_TRY_ASSIGN(Model model, make_model(flags, run));

  const Nanoseconds alone = model.compute.total() * model.micro_batches;
  const double alone_ms = static_cast<double>(alone) / kMillisecond;
  const auto batch = static_cast<double>(run.spec.train.batch);
  int64_t elements = 0;
  for (const ParameterInfo& p : model.parameters) elements += p.shape.elements();
  const double megabytes = static_cast<double>(elements) * sizeof(float) / 1e6;
  if (!flags.json) {
    fmt::print("{}: {} samples a worker and step in {} micro-batch{}, {:.1f} MB of parameters\n", flags.run_file.file,
               run.spec.train.batch, model.micro_batches, model.micro_batches == 1 ? "" : "es", megabytes);
    fmt::print("one worker computes {:.3f} ms a step ({}), {:.1f} samples/s\n", alone_ms,
               flags.compute == "measured" ? "measured" : "assumed", batch / alone_ms * 1e3);
    fmt::print("links of {} and {}; {}\n\n", flags.bandwidth, flags.latency, costs_text(model.costs));
    print_heading();
  }
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = 0; i < flags.workers.size(); ++i) {
    Row row{.workers = flags.workers[i], .ps = flags.ps[flags.ps.size() == 1 ? 0 : i]};
    model.workers = row.workers;
    model.ps = row.ps;
    DTRAIN_TRY_ASSIGN(row.outcome, sim::scale::simulate(model));
    row.step_ms = static_cast<double>(row.outcome.step) / kMillisecond;
    row.samples_per_s = batch * row.workers / row.step_ms * 1e3;
    row.efficiency = alone_ms / row.step_ms;
    row.speed_up = row.efficiency * row.workers;
    if (flags.json)
      rows.push_back(to_json(row));
    else
      print_row(row);
  }
  if (!flags.json) return {};
  const HostCosts& c = model.costs;
  fmt::print("{}\n", nlohmann::json{{"program", "dtrain " DTRAIN_VERSION},
                                    {"run", flags.run_file.file},
                                    {"batch", run.spec.train.batch},
                                    {"parameter_mb", megabytes},
                                    {"compute_ms", alone_ms},
                                    {"compute", flags.compute},
                                    {"bandwidth_bytes_per_s", model.link.bytes_per_second},
                                    {"latency_us", static_cast<double>(model.link.latency) / kMicrosecond},
                                    {"host_costs_ns",
                                     {{"message", c.message},
                                      {"write", c.write},
                                      {"receive", c.receive},
                                      {"send", c.send},
                                      {"add", c.add},
                                      {"update", c.update}}},
                                    {"sizes", rows}}
                         .dump());
  return {};
}

}  // namespace

const Command kSimulate{
    "simulate", "say how a run would scale to more workers", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<SimulateFlags>();
      flags->run_file.declare(app);
      add_flag_value(app, "--workers", flags->workers, "numbers of workers, as 1,4,16; train.batch samples each")
          ->delimiter(',')
          ->check(CLI::Range(1, 65536))
          ->capture_default_str();
      add_flag_value(app, "--ps", flags->ps,
                     "parameter servers on hosts of their own: one number, or one for each of --workers; 0: every "
                     "worker holds parameters")
          ->delimiter(',')
          ->check(CLI::Range(0, 65536))
          ->capture_default_str();
      add_flag_value(app, "--bandwidth", flags->bandwidth, "of every host's link, in each direction")
          ->type_name("RATE")
          ->capture_default_str();
      add_flag_value(app, "--latency", flags->latency, "from host to host, as 50us or 1.5ms")
          ->type_name("TIME")
          ->capture_default_str();
      add_flag_value(app, "--compute", flags->compute,
                     "what a worker computes a step: 'measured' on this machine, or a time, as 450ms or 0.45")
          ->type_name("TIME")
          ->capture_default_str();
      add_flag_value(app, "--threads", flags->threads, "threads to measure it with")
          ->check(CLI::Range(1, 1024))
          ->capture_default_str();
      app.add_option("--host_cost,--host-cost", flags->costs,
                     "what the loop thread of a task takes, instead of what is measured here: message=2us, write=2us, "
                     "receive=4GB/s, send=4GB/s, add=8GB/s, update=2GB/s; repeatable")
          ->allow_extra_args(false)
          ->type_name("KEY=VALUE");
      add_flag_value(app, "--shared_cores", flags->shared_cores,
                     "all tasks compute on so many cores together; 0: each has its own")
          ->check(CLI::Range(0, 1024))
          ->capture_default_str();
      add_flag_value(app, "--warmup", flags->warmup, "steps that are simulated before the first that is timed")
          ->check(CLI::Range(1, 1000000))
          ->capture_default_str();
      add_flag_value(app, "--steps", flags->steps, "steps that are timed")
          ->check(CLI::Range(1, 10000000))
          ->capture_default_str();
      add_switch(app, "--json", flags->json, "print one line of JSON");
      return [flags] {
        const Status done = simulate_sizes(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
