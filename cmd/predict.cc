// dtrain predict: what a trained model answers, a row a sample.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "model_source.h"
#include "node/answer_table.h"
#include "node/arithmetic.h"
#include "node/predict.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

struct PredictFlags {
  RunFileFlags run_file;
  std::string model, part, input, output = "-", format = "csv";
  int64_t batch = 64;
  bool all = false;
};

struct Part {
  std::string name;  // "data.test"
  config::Value table;
};

Result<Part> choose_part(const node::RunDefinition& run, const PredictFlags& flags) {
  const config::RunSpec& spec = run.spec;
  Part part;
  const std::string wanted = !flags.part.empty() ? flags.part : spec.data_predict ? "predict" : "test";
  part.name = "data." + wanted;
  const config::Value* const table = wanted == "train"     ? &spec.data_train
                                     : wanted == "predict" ? (spec.data_predict ? &*spec.data_predict : nullptr)
                                                           : (spec.data_test ? &*spec.data_test : nullptr);
  if (!table && flags.input.empty())
    return fail(ExitCode::kUsage, fmt::format("{} has no [{}]; --data chooses another table, --input names a file",
                                              flags.run_file.file, part.name));
  // Without a table of its own a file that is given is like the training data.
  part.table = table ? *table : spec.data_train;
  if (flags.input.empty()) return part;
  const config::Value* const format = part.table.find("format");
  if (!format || !format->is_string() || (format->as_string() != "csv" && format->as_string() != "libsvm"))
    return fail(ExitCode::kUsage, "--input is for the formats csv and libsvm; use --set for the files of others");
  const config::Position here = config::Position("--input", 0, 0);
  part.table.set("file", config::Value(flags.input, here), here);
  if (!table || wanted == "train") {
    part.name = "data.predict";
    for (const char* key : {"columns", "label", "normalize", "limit"}) part.table.erase(key);
  }
  return part;
}

// Standard output, or a file that appears when it is whole.
class Output {
 public:
  static Result<Output> open(FileSystem& files, const std::string& path) {
    Output output(files, path);
    if (path != "-") {
      // What takes the place of a device or a pipe would remove it.
      std::error_code error;
      const auto there = std::filesystem::status(path, error);
      if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
        return fail(ExitCode::kUsage,
                    fmt::format("cannot write '{}': it is not a regular file; name another one, or leave --output away "
                                "and redirect standard output",
                                path));
      DTRAIN_TRY_ASSIGN(output.file_, under_code(ExitCode::kUsage, files.create(output.beside_)));
    }
    return output;
  }
  Status write(std::string_view text) {
    if (file_) return file_->write(std::as_bytes(std::span(text)));
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
    return fail(ExitCode::kData, "cannot write to standard output");
  }
  Status finish() {
    if (!file_) return {};
    DTRAIN_TRY(file_->sync());
    DTRAIN_TRY(file_->close());
    DTRAIN_TRY(files_.rename(beside_, path_));
    return files_.sync_directory(parent_path(path_));
  }
  void abandon() {
    if (!file_) return;
    (void)file_->close();
    (void)files_.remove_tree(beside_);
  }

 private:
  Output(FileSystem& files, const std::string& path) : files_(files), path_(path), beside_(path + ".part") {}

  FileSystem& files_;
  const std::string path_, beside_;
  std::unique_ptr<WritableFile> file_;
};

Status predict(const PredictFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, flags.run_file.set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  if (run.spec.train.threads) omp_set_num_threads(static_cast<int>(*run.spec.train.threads));
  DTRAIN_TRY_ASSIGN(const Part part, choose_part(run, flags));
  DTRAIN_TRY_ASSIGN(const Model model, open_model(files, flags.model));
  DTRAIN_TRY_ASSIGN(const auto data, run.open_part(part.table, part.name.c_str(), files, model.learnt, false));
  const graph::Network& network = *run.network;
  if (flags.all && network.labels().shape.rank() > 0 && network.prediction().kind == graph::Prediction::Kind::kSoftmax)
    return fail(ExitCode::kUsage, "--all is for samples with one class each");
  const node::AnswerTable table(
      network, model.learnt.classes,
      {flags.format == "jsonl" ? node::AnswerTable::Format::kJsonLines : node::AnswerTable::Format::kCsv, flags.all});
  DTRAIN_TRY_ASSIGN(Output output, Output::open(files, flags.output));
  const auto write_all = [&]() -> Status {
    DTRAIN_TRY(output.write(table.header()));
    DTRAIN_TRY(node::predict(
        run, *data, flags.batch, model.parameters,
        [&](int64_t sample, std::span<const float> answer) { return output.write(table.row(sample, answer)); },
        model.rows.get()));
    return output.finish();
  };
  const Status done = write_all();
  if (done) return {};
  output.abandon();
  if (std::ferror(stdout) && reader_is_gone()) return {};  // it has seen enough, as `head` has
  return done;
}

}  // namespace

const Command kPredict{
    "predict", "say what a trained model answers, sample by sample", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<PredictFlags>();
      flags->run_file.declare(app);
      add_flag_value(app, "--model", flags->model, "a model.safetensors, or the folder of a checkpoint or a run")
          ->required()
          ->type_name("FILE");
      add_flag_value(app, "--data", flags->part,
                     "which samples; default: predict where there is [data.predict], else test")
          ->check(CLI::IsMember({"predict", "test", "train"}));
      add_flag_value(app, "--input", flags->input, "a file of samples instead of the table's (csv, libsvm)")
          ->type_name("FILE");
      add_flag_value(app, "--output", flags->output, "where to write; -: standard output")
          ->type_name("FILE")
          ->capture_default_str();
      add_flag_value(app, "--format", flags->format, "csv, or a JSON object a line")
          ->check(CLI::IsMember({"csv", "jsonl"}))
          ->capture_default_str();
      add_flag_value(app, "--batch", flags->batch, "samples at a time")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
      add_switch(app, "--all", flags->all, "give the probability of every class");
      return [flags] {
        const Status done = predict(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
