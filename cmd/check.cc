// dtrain check: what a run file means, before anything is started: every layer's shape, parameters and FLOPs, every
// server's blocks, the memory that a task will take, the bytes that a step moves; and every mistake.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bytes_text.h"
#include "cluster_flags.h"
#include "commands.h"
#include "config/canonical.h"
#include "data/table_pipeline.h"
#include "node/arithmetic.h"
#include "node/memory_estimate.h"
#include "node/network_split.h"
#include "node/run_definition.h"
#include "node/stage_estimate.h"
#include "ps/block_table.h"
#include "ps/row_index.h"
#include "traffic_table.h"

namespace dtrain::cmd {
namespace {

struct CheckFlags {
  RunFileFlags run_file;
  ClusterFlags cluster;
  int workers = 1, ps = 0;
  std::string bandwidth;
  bool dump_config = false, blocks = false;
};

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
  int64_t tables = 0;
  for (const ParameterInfo& p : network.parameters())
    if (p.kind == ParameterKind::kSparse) tables += p.shape.elements();
  fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16}\n", "layer", "type", "output", "parameters", "forward FLOPs");
  fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16}\n", "input", "", to_string(network.input()), "", "");
  for (const graph::NetworkLayer& layer : network.layers())
    fmt::print("{:<28} {:<22} {:<20} {:>12} {:>16.0f}\n", layer.name,
               layer.activation.kind == ops::ActivationKind::kNone
                   ? layer.type
                   : fmt::format("{} + {}", layer.type, ops::name_of(layer.activation.kind)),
               to_string(layer.output), layer.parameter_elements, layer.forward_flops);
  fmt::print("{} trainable parameters{}, {:.4g} forward FLOPs a sample\n", network.trainable_elements(),
             tables > 0 ? fmt::format(" and {} in sparse tables", tables) : "", network.forward_flops());
  print_special_parameters(network);
  fmt::print("\n");
}

std::string blocks_text(size_t blocks) { return fmt::format("{} block{}", blocks, blocks == 1 ? "" : "s"); }

void print_blocks(const ps::BlockTable& table, uint32_t server) {
  for (uint32_t id : table.of_server(server)) {
    const ps::Block& block = table.block(id);
    fmt::print("  {:<30} elements {:>10} … {:<10} {:>10} B\n",
               table.parameters()[static_cast<size_t>(block.parameter)].name, block.first,
               block.first + block.elements - 1, block.elements * static_cast<int64_t>(sizeof(float)));
  }
}

// Of many servers or blocks only how much there is, unless `all` is asked for.
void print_servers(const ps::BlockTable& table, size_t slots, bool all) {
  constexpr size_t kManyBlocks = 48;
  constexpr uint32_t kManyServers = 16;
  const auto state = [slots](double bytes) {
    return slots ? fmt::format(", {} of optimizer state", bytes_text(bytes * static_cast<double>(slots))) : "";
  };
  if (table.servers() > kManyServers && !all) {
    int64_t least = table.server_elements(0), most = 0;
    for (uint32_t s = 0; s < table.servers(); ++s) {
      least = std::min(least, table.server_elements(s));
      most = std::max(most, table.server_elements(s));
    }
    const double bytes = static_cast<double>(most) * sizeof(float);
    fmt::print("{} servers: {}, {} to {} of parameters on each{} (--blocks lists them)\n\n", table.servers(),
               blocks_text(table.blocks().size()), bytes_text(static_cast<double>(least) * sizeof(float)),
               bytes_text(bytes), state(bytes));
    return;
  }
  const bool listed = all || table.blocks().size() <= kManyBlocks;
  for (uint32_t s = 0; s < table.servers(); ++s) {
    const auto bytes = static_cast<double>(table.server_elements(s)) * sizeof(float);
    fmt::print("server {}: {}, {} of parameters{}\n", s, blocks_text(table.of_server(s).size()), bytes_text(bytes),
               state(bytes));
    if (listed) print_blocks(table, s);
  }
  if (!listed) fmt::print("(--blocks lists the blocks)\n");
  fmt::print("\n");
}

// What a consistency mode other than synchronous takes.
std::string mode_memory(double own_steps, double behind) {
  std::string out;
  if (own_steps > 0) out += fmt::format(", own steps {}", bytes_text(own_steps));
  if (behind > 0) out += fmt::format(", for workers at different versions at most {}", bytes_text(behind));
  return out;
}

// The consistency mode, in a line.
std::string mode_text(const node::RunDefinition& run, int64_t micro_batches, bool split) {
  const consistency::Mode& mode = run.rule->mode();
  std::string out = mode.name;
  if (!mode.lockstep)
    out += fmt::format(", parameters fetched every {} and gradients pushed every {} micro-batches", mode.fetch_every,
                       mode.push_every);
  else if (mode.needed > 0)
    out += fmt::format(", the first {} of {} micro-batches make a step", mode.needed, micro_batches);
  else if (mode.newest)
    out += fmt::format(", from parameters at most {} versions old", mode.window - 1);
  if (mode.stride > 1) out += fmt::format(", in rounds of {} steps", mode.stride);
  if (const auto why = run.why_not_reproducible())
    out += "; not reproducible to the bit: " + *why;
  else if (!run.spec.train.allow_different_arithmetic)
    out += "; the same bits on any cluster";
  if (run.speculate && !split) out += "; a slow worker's share is computed by others as well";
  return out;
}

std::string rows_text(const node::MemoryEstimate& memory) {
  return memory.rows > 0 ? fmt::format(", rows of sparse tables {}", bytes_text(memory.rows)) : "";
}

Status print_memory(const node::RunDefinition& run, const ps::BlockTable& table, uint32_t k, uint32_t workers,
                    bool alone, bool split) {
  if (alone) {
    DTRAIN_TRY_ASSIGN(const node::MemoryEstimate memory, node::estimate_memory_alone(run, table, k));
    fmt::print("memory in one process: {} (activations {}, parameters {}, gradients {}{}, ",
               bytes_text(memory.process()), bytes_text(memory.activations), bytes_text(memory.parameters),
               bytes_text(memory.gradients), rows_text(memory));
    fmt::print("optimizer state {}, sums under way at most {}{})\n", bytes_text(memory.slots), bytes_text(memory.sums),
               mode_memory(memory.own_steps, memory.behind));
  }
  DTRAIN_TRY_ASSIGN(const node::MemoryEstimate memory, node::estimate_memory(run, table, k, workers));
  if (!split)
    fmt::print("memory of a worker: {} (activations {}, parameters {}, gradients {}{})\n", bytes_text(memory.worker()),
               bytes_text(memory.activations), bytes_text(memory.parameters), bytes_text(memory.gradients),
               mode_memory(memory.own_steps, 0) + rows_text(memory));
  fmt::print("memory of the fullest server: {} (two versions {}, optimizer state {}, sums under way at most {}{})\n",
             bytes_text(memory.server()), bytes_text(memory.versions), bytes_text(memory.slots),
             bytes_text(memory.sums), mode_memory(0, memory.behind));
  return {};
}

void print_tables(const node::RunDefinition& run, const ps::RowSpace& space) {
  const auto slots = static_cast<double>(run.optimizer.optimizer->slots());
  for (const ps::RowSpace::Table& t : space.tables()) {
    const double row = static_cast<double>(t.width) * sizeof(float);
    const int64_t used = run.network->rows_used(t.parameter, run.spec.train.batch);
    fmt::print(
        "sparse table {}: {} rows of {}, {} if all were used; a step uses at most {}, a row that was used takes {} "
        "on its server\n",
        run.network->parameters()[static_cast<size_t>(t.parameter)].name, t.rows, t.width,
        bytes_text(row * static_cast<double>(t.rows)), used,
        bytes_text(row * (1 + slots) + static_cast<double>(ps::RowIndex::bytes_for(1)) + sizeof(uint64_t)));
  }
  if (!space.empty()) fmt::print("\n");
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

// The cluster of --workers and --ps, on hosts that only a name is needed of.
Result<cluster::ClusterSpec> numbered_cluster(const CheckFlags& flags) {
  std::string ps, workers;
  for (int i = 0; i < flags.ps; ++i) ps += fmt::format("{}ps{}:1", i > 0 ? "," : "", i);
  for (int i = 0; i < flags.workers; ++i) workers += fmt::format("{}worker{}:1", i > 0 ? "," : "", i);
  return cluster::parse_host_lists(ps, workers, flags.cluster.spec.options);
}

node::TaskCounts count_tasks(const cluster::ClusterSpec& cluster) {
  node::TaskCounts counts;
  for (const cluster::Task& task : cluster.tasks()) {
    const bool ps = cluster.role_of(task) == cluster::Role::kPs;
    ++(ps ? counts.ps : cluster.listed(task) ? counts.workers : counts.joiners);
  }
  return counts;
}

// How gradients, parameters and rows travel.
node::TravelForm travel_form(const node::RunDefinition& run, const ps::RowSpace& space, int64_t micro_batch) {
  node::TravelForm form{run.compression.gradients, run.compression.pulls};
  for (const ps::RowSpace::Table& t : space.tables()) {
    const auto rows = static_cast<double>(run.network->rows_used(t.parameter, micro_batch));
    const double values = rows * static_cast<double>(t.width) * sizeof(float);
    form.rows_sent += 2 * rows * sizeof(uint64_t) + values;  // their numbers with each pull and each push
    form.rows_received += values;
  }
  return form;
}

void print_stages(const std::vector<node::StageEstimate>& stages, const cluster::ClusterSpec& spec, uint32_t k) {
  const auto name = [&](size_t task) { return cluster::to_string(spec.workers()[task]); };
  fmt::print("{:<28} {:>8} {:>12} {:>16} {:>12}  {}\n", "layers on several tasks", "layers", "parameters",
             "forward FLOPs", "memory", "sends in a step");
  for (size_t t = 0; t < stages.size(); ++t) {
    const node::StageEstimate& stage = stages[t];
    std::string sends;
    for (const auto& [to, bytes] : stage.sends)
      sends +=
          fmt::format("{}{} to {}", sends.empty() ? "" : ", ", bytes_text(bytes * k), name(static_cast<size_t>(to)));
    fmt::print("{:<28} {:>8} {:>12} {:>16.0f} {:>12}  {}\n", name(t), stage.layers, stage.parameters,
               stage.forward_flops, bytes_text(stage.memory()), sends);
  }
  fmt::print("each computes all {} micro-batches of a step; one process computes all layers\n\n", k);
}

Status check(const CheckFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, flags.run_file.set, files));
  if (flags.dump_config) {
    fmt::print("{}", config::effective_toml(run.root));
    return {};
  }
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  DTRAIN_TRY(run.open_data(files));
  DTRAIN_TRY_ASSIGN(const auto bandwidths, read_bandwidths(flags.bandwidth));
  DTRAIN_TRY_ASSIGN(const auto given, flags.cluster.read());
  DTRAIN_TRY_ASSIGN(const cluster::ClusterSpec cluster,
                    given ? Result<cluster::ClusterSpec>(*given) : numbered_cluster(flags));
  const node::TaskCounts counts = count_tasks(cluster);
  const uint32_t workers = counts.workers + counts.joiners;
  const auto servers = static_cast<uint32_t>(cluster.servers().size());
  const int64_t batch = run.spec.train.batch;
  const int64_t k = node::micro_batches_of(run.spec.train, workers);
  const int64_t steps = run.total_steps();
  // All that may be refused comes before the first line.
  const bool unplaced = node::names_tasks(*run.network) && !given && workers == 1;
  std::shared_ptr<const node::NetworkSplit> split;
  if (!unplaced) {
    DTRAIN_TRY_ASSIGN(split, node::read_split(run, cluster));
  }
  std::vector<node::StageEstimate> stages;
  if (split) {
    DTRAIN_TRY_ASSIGN(stages, node::estimate_stages(run, *split, static_cast<uint32_t>(k)));
  }
  print_layers(*run.network);

  print_columns(*run.train);
  fmt::print("data: {} training samples{}; {} steps of {} samples\n", run.train->size(),
             run.test ? fmt::format(", {} test samples", run.test->size()) : "", steps, batch);
  fmt::print("micro-batches: K = {} of {} samples{}, over {} worker{}\n", k, batch / k,
             run.spec.train.micro_batch ? "" : " (automatic; kept by a resume)", workers, workers == 1 ? "" : "s");
  fmt::print("consistency: {}\n", mode_text(run, k, split != nullptr));
  if (k < workers && !split)
    fmt::print("warning: {} of {} workers will idle, because K is smaller\n", workers - k, workers);
  fmt::print("\n");

  if (unplaced)
    fmt::print("layers name tasks by 'device': --workers N or a cluster shows what each of them computes\n\n");
  else if (split)
    print_stages(stages, cluster, static_cast<uint32_t>(k));

  const ps::BlockTable table(run.network->parameters(), servers);
  print_servers(table, run.optimizer.optimizer->slots(), flags.blocks);
  print_tables(run, table.rows());
  // Each worker of a split network moves and keeps what is of its own layers: the table of stages says that.
  if (!split)
    print_traffic(table.parameters(), counts, static_cast<uint32_t>(k), run.rule->mode(),
                  travel_form(run, table.rows(), batch / k), bandwidths);
  const bool alone = !given && cluster.size() == 1;
  return print_memory(run, table, static_cast<uint32_t>(k), workers, alone, split != nullptr);
}

}  // namespace

const Command kCheck{
    "check", "say what a run file means, and every mistake in it", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<CheckFlags>();
      flags->run_file.declare(app);
      flags->cluster.declare(app);
      add_flag_value(app, "--workers", flags->workers, "number of workers, where no cluster is given")
          ->check(CLI::Range(1, 32768));
      add_flag_value(app, "--ps", flags->ps, "number of parameter servers; 0: beside the workers")
          ->check(CLI::Range(0, 32768));
      add_flag_value(app, "--bandwidth", flags->bandwidth, "of the tasks' links, as 10Gbps or ps=25Gbps,worker=1Gbps")
          ->type_name("RATE");
      add_switch(app, "--blocks", flags->blocks, "list every block of parameters, however many");
      add_switch(app, "--dump_config", flags->dump_config,
                 "print the effective configuration as TOML, and nothing else");
      return [flags] {
        const Status done = check(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
