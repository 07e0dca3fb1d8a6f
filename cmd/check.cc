// dtrain check: what a run file means, before anything is started: every layer's shape, parameters and FLOPs, every
// server's blocks, the memory that a task will take; and every mistake.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cluster_flags.h"
#include "commands.h"
#include "config/canonical.h"
#include "data/table_pipeline.h"
#include "node/memory_estimate.h"
#include "node/run_definition.h"
#include "ps/block_table.h"

namespace dtrain::cmd {
namespace {

struct CheckFlags {
  RunFileFlags run_file;
  ClusterFlags cluster;
  int workers = 1, ps = 0;
  bool dump_config = false;
};

std::string bytes_text(double bytes) {
  if (bytes < 10e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 10e6) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (bytes < 10e9) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.1f} GiB", bytes / (1 << 30));
}

// What the layers' `params` say of training, a line for each parameter that is not like the others.
void print_special_parameters(const graph::Network& network) {
  for (const graph::NetworkLayer& layer : network.layers()) {
    for (ParameterIndex index : layer.parameters) {
      const ParameterInfo& p = network.parameters()[static_cast<size_t>(index)];
      if (!p.name.starts_with(layer.name + "."))
        fmt::print("{}: shares {}\n", layer.name, p.name);
      else if (p.kind == ParameterKind::kFrozen)
        fmt::print("{}: frozen, {} elements\n", p.name, p.shape.elements());
      else if (p.rate_multiplier != 1 || p.decay_multiplier != 1)
        fmt::print("{}: learning rate times {}, weight decay times {}\n", p.name, p.rate_multiplier,
                   p.decay_multiplier);
    }
  }
}

void print_layers(const graph::Network& network) {
  fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16}\n", "layer", "type", "output", "parameters", "forward FLOPs");
  fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16}\n", "input", "", to_string(network.input()), "", "");
  for (const graph::NetworkLayer& layer : network.layers())
    fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16.0f}\n", layer.name,
               layer.activation.kind == ops::ActivationKind::kNone
                   ? layer.type
                   : fmt::format("{} + {}", layer.type, ops::name_of(layer.activation.kind)),
               to_string(layer.output), layer.parameter_elements, layer.forward_flops);
  fmt::print("{} trainable parameters, {:.4g} forward FLOPs a sample\n", network.trainable_elements(),
             network.forward_flops());
  print_special_parameters(network);
  fmt::print("\n");
}

void print_servers(const ps::BlockTable& table, size_t slots) {
  for (uint32_t s = 0; s < table.servers(); ++s) {
    const auto bytes = static_cast<double>(table.server_elements(s)) * sizeof(float);
    fmt::print("server {}: {} block{}, {} of parameters{}\n", s, table.of_server(s).size(),
               table.of_server(s).size() == 1 ? "" : "s", bytes_text(bytes),
               slots ? fmt::format(", {} of optimizer state", bytes_text(bytes * static_cast<double>(slots))) : "");
    for (uint32_t id : table.of_server(s)) {
      const ps::Block& block = table.block(id);
      fmt::print("  {:<38} {:>10} … {:<10} {:>10} B\n", table.parameters()[static_cast<size_t>(block.parameter)].name,
                 block.first, block.first + block.elements - 1, block.elements * static_cast<int64_t>(sizeof(float)));
    }
  }
  fmt::print("\n");
}

Status print_memory(const node::RunDefinition& run, const ps::BlockTable& table, uint32_t k, uint32_t workers,
                    bool alone) {
  if (alone) {
    DTRAIN_TRY_ASSIGN(const node::MemoryEstimate memory, node::estimate_memory_alone(run, table, k));
    fmt::print("memory in one process: {} (activations {}, parameters {}, gradients {}, ", bytes_text(memory.process()),
               bytes_text(memory.activations), bytes_text(memory.parameters), bytes_text(memory.gradients));
    fmt::print("optimizer state {}, sums under way at most {})\n", bytes_text(memory.slots), bytes_text(memory.sums));
  }
  DTRAIN_TRY_ASSIGN(const node::MemoryEstimate memory, node::estimate_memory(run, table, k, workers));
  fmt::print("memory of a worker: {} (activations {}, parameters {}, gradients {})\n", bytes_text(memory.worker()),
             bytes_text(memory.activations), bytes_text(memory.parameters), bytes_text(memory.gradients));
  fmt::print("memory of the fullest server: {} (two versions {}, optimizer state {}, sums under way at most {})\n",
             bytes_text(memory.server()), bytes_text(memory.versions), bytes_text(memory.slots),
             bytes_text(memory.sums));
  return {};
}

// Where the columns of a table stand in a sample.
void print_columns(const data::Dataset& data) {
  const auto pipeline = data::TablePipeline::from_text(data.preprocessing());
  if (!pipeline) return;  // no table
  fmt::print("{:<38} {:>8} {:>8}\n", "column", "begins", "elements");
  int64_t begin = 0;
  for (const data::FittedColumn& column : pipeline->columns) {
    fmt::print("{:<38} {:>8} {:>8}{}\n", column.describe(), begin, column.width(),
               column.category ? fmt::format("  {} categories", column.choices()) : "");
    begin += column.width();
  }
  fmt::print("\n");
}

Status check(const CheckFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, flags.run_file.set, files));
  if (flags.dump_config) {
    fmt::print("{}", config::effective_toml(run.root));
    return {};
  }
  DTRAIN_TRY(run.open_data(files));
  DTRAIN_TRY_ASSIGN(const auto cluster, flags.cluster.read());
  const auto workers =
      cluster ? static_cast<uint32_t>(cluster->workers().size()) : static_cast<uint32_t>(flags.workers);
  const auto servers = cluster ? static_cast<uint32_t>(cluster->servers().size())
                               : static_cast<uint32_t>(flags.ps > 0 ? flags.ps : flags.workers);
  print_layers(*run.network);

  print_columns(*run.train);
  const int64_t batch = run.spec.train.batch;
  const int64_t k =
      run.spec.train.micro_batch ? batch / *run.spec.train.micro_batch : node::automatic_micro_batches(batch, workers);
  const int64_t steps = run.total_steps();
  fmt::print("data: {} training samples{}; {} steps of {} samples\n", run.train->size(),
             run.test ? fmt::format(", {} test samples", run.test->size()) : "", steps, batch);
  fmt::print("micro-batches: K = {} of {} samples{}, over {} worker{}\n", k, batch / k,
             run.spec.train.micro_batch ? "" : " (automatic; kept by a resume)", workers, workers == 1 ? "" : "s");
  if (k < workers) fmt::print("warning: {} of {} workers will idle, because K is smaller\n", workers - k, workers);
  fmt::print("\n");

  const ps::BlockTable table(run.network->parameters(), servers);
  print_servers(table, run.optimizer.optimizer->slots());
  const bool alone = !cluster && workers == 1 && flags.ps == 0;
  return print_memory(run, table, static_cast<uint32_t>(k), workers, alone);
}

}  // namespace

const Command kCheck{"check", "say what a run file means, and every mistake in it",
                     [](CLI::App& app) -> std::function<ExitCode()> {
                       auto flags = std::make_shared<CheckFlags>();
                       flags->run_file.declare(app);
                       flags->cluster.declare(app);
                       add_flag_value(app, "--workers", flags->workers, "number of workers, where no cluster is given")
                           ->check(CLI::Range(1, 100000));
                       add_flag_value(app, "--ps", flags->ps, "number of parameter servers; 0: beside the workers")
                           ->check(CLI::Range(0, 100000));
                       add_switch(app, "--dump_config", flags->dump_config,
                                  "print the effective configuration as TOML, and nothing else");
                       return [flags] {
                         const Status done = check(*flags);
                         return done ? ExitCode::kDone : report(done.error());
                       };
                     }};

}  // namespace dtrain::cmd
