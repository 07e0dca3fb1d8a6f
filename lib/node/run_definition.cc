#include "node/run_definition.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/canonical.h"
#include "config/load.h"
#include "config/network_spec.h"
#include "config/task_device.h"
#include "data/share_labels.h"
#include "node/run_modes.h"
#include "node/sparse_tables.h"

namespace dtrain::node {
namespace {

// Whether a data set delivers what the network takes; `part` is "data.train", `table` where it is written.
void check_fit(const graph::Network& network, const config::Value& network_table, const data::Dataset& data,
               const config::Value& table, const char* part, config::Diagnostics& diagnostics) {
  if (data.sample_shape() != network.input()) {
    diagnostics.error(network_table.position_of("input"),
                      fmt::format("network.input is {}, but the samples of [{}] are {}", to_string(network.input()),
                                  part, to_string(data.sample_shape())));
    return;
  }
  const graph::LabelSpec& wanted = network.labels();
  const data::LabelSpec& got = data.labels();
  const bool classes = wanted.kind == graph::LabelSpec::Kind::kClasses;
  if (classes != (got.kind != data::LabelKind::kValues) || got.shape.elements() != wanted.shape.elements()) {
    diagnostics.error(
        table.position_of("labels"),
        fmt::format("the loss wants {} of shape {} for each sample, but the labels of [{}] are {} of shape {}",
                    classes ? "classes" : "numbers", to_string(wanted.shape), part,
                    got.kind == data::LabelKind::kValues ? "numbers" : "classes", to_string(got.shape)));
  } else if (classes && data.max_label() >= wanted.classes) {
    diagnostics.error(table.position_of("labels"),
                      fmt::format("the labels of [{}] hold the class {}, but the network has {} (0 … {})", part,
                                  data.max_label(), wanted.classes, wanted.classes - 1),
                      ExitCode::kData);
  }
}

// Held to what the loss takes as a label, where that is less than any number.
std::shared_ptr<const data::Dataset> bounded(std::unique_ptr<data::Dataset> data, const graph::Network& network,
                                             const config::Value& table, const char* part) {
  if (!data || data->labels().kind != data::LabelKind::kValues ||
      network.prediction().kind != graph::Prediction::Kind::kSigmoid)
    return data;
  std::string source = fmt::format("[{}]", part);
  for (const char* key : {"labels", "file"})
    if (const config::Value* file = table.find(key); file && file->is_string())
      source = fmt::format("'{}'", file->as_string());
  return std::make_shared<data::ShareLabels>(std::move(data), std::move(source));
}

// Classes that are numbered by their names must be the same in both parts, or class 3 is not class 3.
void check_names(const data::Dataset& train, const data::Dataset& test, const config::Value& test_table,
                 config::Diagnostics& diagnostics) {
  const auto wanted = train.label_names(), got = test.label_names();
  if (wanted.empty() || got.empty() || std::equal(wanted.begin(), wanted.end(), got.begin(), got.end())) return;
  const auto [one, other] = std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end());
  const auto name = [](const auto& at, const auto& end) { return at == end ? "missing" : fmt::format("'{}'", *at); };
  diagnostics.error(
      test_table.position_of("format"),
      fmt::format("the classes of [data.train] and [data.test] differ: number {} is {} in one and {} in the other",
                  one - wanted.begin(), name(one, wanted.end()), name(other, got.end())),
      ExitCode::kData);
}

// What is wrong with the data, of a run that will not start anyway.
void read_data_mistakes(const config::RunSpec& spec, const config::NetworkSpec& network, const FileSystem& files,
                        config::Diagnostics& diagnostics) {
  data::DatasetContext context{.files = files, .network_input = Shape(network.input)};
  auto read = [&](const config::Value& table, const char* part) -> std::unique_ptr<data::Dataset> {
    if (!table.find("format")) return nullptr;  // no such table, or that was said
    config::TableReader reader(table, diagnostics, fmt::format("[{}]", part));
    return data::open_data(reader, context).dataset;
  };
  if (network.input.empty()) return;  // the samples cannot be compared with it
  const auto train = read(spec.data_train, "data.train");
  context.training = false;
  if (train) context.preprocessing = train->preprocessing();
  if (spec.data_test) read(*spec.data_test, "data.test");
}

}  // namespace

Result<RunDefinition> RunDefinition::read(const std::string& file, std::span<const std::string> overrides,
                                          const FileSystem& files) {
  RunDefinition run;
  DTRAIN_TRY_ASSIGN(run.root, config::load_file(file, overrides));
  config::Diagnostics diagnostics;
  run.spec = config::read_run_spec(run.root, diagnostics);
  optim::OptimizerSpec optimizer = optim::read_optimizer_spec(run.spec.optimizer, diagnostics);
  const double ema = run.spec.train.ema;
  if (optimizer.optimizer->full_batch()) {
    if (ema > 0)
      diagnostics.error(run.root.find("train")->position_of("ema"), "'ema' in [train] is not for the optimizer lbfgs");
    if (run.spec.schedule)
      diagnostics.error(run.spec.schedule->position(), "[schedule] is not for the optimizer lbfgs, which has no lr");
  }
  RunModes modes = read_modes(run.root, run.spec, std::move(optimizer), diagnostics);
  run.rule = std::move(modes.rule);
  run.speculate = modes.speculate;
  run.compression = std::move(modes.compression);
  run.optimizer = std::move(modes.optimizer);
  run.worker_optimizer = std::move(modes.worker_optimizer);
  run.schedule = optim::read_schedule(run.spec.schedule ? &*run.spec.schedule : nullptr, diagnostics);
  // Apart, so that the layers are looked at whatever is wrong elsewhere.
  config::Diagnostics of_network;
  const config::NetworkSpec network_spec = config::expand_network(run.spec.network, of_network);
  run.network = graph::Network::build(network_spec, of_network);
  for (const config::Diagnostic& d : of_network.errors()) diagnostics.error(d.position, d.message, d.code);
  if (run.network && diagnostics.ok()) check_sparse_tables(run, diagnostics);
  if (!diagnostics.ok()) {
    read_data_mistakes(run.spec, network_spec, files, diagnostics);
    return tl::unexpected(diagnostics.status().error());
  }
  run.run_digest = sha256(config::canonical_text(config::without_devices(run.root), config::keys_free_on_resume()));
  return run;
}

std::optional<std::string> RunDefinition::why_not_reproducible() const {
  const consistency::Mode& mode = rule->mode();
  if (!mode.same_bits) return fmt::format("with train.consistency = '{}' it counts who comes when", mode.name);
  if (compression.gradients)
    return "with train.compression each worker keeps what it has not sent yet, which another cluster divides otherwise";
  if (compression.pulls) return "with train.compress_pulls a resumed run goes on without what was not sent yet";
  return std::nullopt;
}

std::vector<config::TableReader::NamedPath> RunDefinition::data_files() const {
  std::vector<config::TableReader::NamedPath> files = data::named_files(spec.data_train);
  if (spec.data_test)
    for (auto& file : data::named_files(*spec.data_test)) files.push_back(std::move(file));
  return files;
}

Status RunDefinition::open_data(const FileSystem& files) {
  config::Diagnostics diagnostics;
  data::DatasetContext context{files, network->input(), network->input_classes(), network->labels().classes};
  Sha256 digest;
  auto open = [&](const config::Value& table, const char* part) {
    config::TableReader reader(table, diagnostics, fmt::format("[{}]", part));
    data::DataSource source = data::open_data(reader, context);
    if (source.dataset) {
      check_fit(*network, spec.network, *source.dataset, table, part, diagnostics);
      digest.update(to_hex(source.dataset->digest()));
    }
    return source;
  };
  data::DataSource first = open(spec.data_train, "data.train");
  train = bounded(std::move(first.dataset), *network, spec.data_train, "data.train");
  shuffle = first.shuffle;
  train_threads = first.threads;
  if (optimizer.optimizer->full_batch() && train && spec.train.batch != train->size())
    diagnostics.error(
        root.find("train")->position_of("batch"),
        fmt::format("the optimizer lbfgs takes all {} samples in each step: 'batch' in [train] must be {} "
                    "('micro_batch' may cut it)",
                    train->size(), train->size()));
  if (spec.data_test) {
    context.training = false;
    if (train) context.preprocessing = train->preprocessing();
    data::DataSource second = open(*spec.data_test, "data.test");
    test = bounded(std::move(second.dataset), *network, *spec.data_test, "data.test");
    test_threads = second.threads;
  }
  if (train && test) check_names(*train, *test, *spec.data_test, diagnostics);
  data_digest = digest.finish();
  return diagnostics.status();
}

Result<std::shared_ptr<const data::Dataset>> RunDefinition::open_part(const config::Value& table, const char* part,
                                                                      const FileSystem& files, const Learnt& learnt,
                                                                      bool labelled) const {
  config::Diagnostics diagnostics;
  data::DatasetContext context{files, network->input(), network->input_classes(), network->labels().classes};
  context.preprocessing = learnt.preprocessing;
  context.training = std::string_view(part) == "data.train";
  context.labelled = labelled;
  config::TableReader reader(table, diagnostics, fmt::format("[{}]", part));
  std::shared_ptr<const data::Dataset> data = bounded(data::open_data(reader, context).dataset, *network, table, part);
  // What stands where labels are not asked for need not be what the loss takes.
  if (data && labelled) check_fit(*network, spec.network, *data, table, part, diagnostics);
  const auto names = data ? data->label_names() : std::span<const std::string>{};
  if (labelled && !names.empty() && !learnt.classes.empty() &&
      !std::equal(names.begin(), names.end(), learnt.classes.begin(), learnt.classes.end()))
    diagnostics.error(table.position_of("format"),
                      fmt::format("the classes of [{}] are not those that the model has learnt", part),
                      ExitCode::kData);
  DTRAIN_TRY(diagnostics.status());
  return data;
}

int64_t automatic_micro_batches(int64_t batch, int64_t workers) {
  for (int64_t k = workers; k < batch; ++k)
    if (batch % k == 0) return k;
  return batch;
}

int64_t micro_batches_of(const config::TrainSpec& train, int64_t workers) {
  return train.micro_batch ? train.batch / *train.micro_batch : automatic_micro_batches(train.batch, workers);
}

}  // namespace dtrain::node
