// dtrain eval: loss and accuracy of a trained model.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "model_source.h"
#include "node/answer_shares.h"
#include "node/arithmetic.h"
#include "node/evaluate.h"
#include "observe/progress.h"

namespace dtrain::cmd {
namespace {

struct EvalFlags {
  RunFileFlags run_file;
  std::string model, part = "test";
  int64_t batch = 64;
  bool json = false;
};

Status eval(const EvalFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(auto run, node::RunDefinition::read(flags.run_file.file, flags.run_file.set, files));
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  if (run.spec.train.threads) omp_set_num_threads(static_cast<int>(*run.spec.train.threads));
  const bool test = flags.part == "test";
  if (test && !run.spec.data_test)
    return fail(ExitCode::kUsage,
                fmt::format("{} has no [data.test]; --data train evaluates the training data", flags.run_file.file));
  DTRAIN_TRY_ASSIGN(const Model model, open_model(files, flags.model));
  const config::Value& table = test ? *run.spec.data_test : run.spec.data_train;
  DTRAIN_TRY_ASSIGN(const auto data, run.open_part(table, test ? "data.test" : "data.train", files, model.learnt));
  const config::Value* const threads = table.find("threads");  // that the data open says that it is right
  DTRAIN_TRY_ASSIGN(const Metrics m,
                    node::evaluate(run, *data, flags.batch, model.parameters,
                                   threads ? static_cast<size_t>(threads->as_integer()) : 1, model.rows.get()));
  const node::AnswerShares shares = node::answer_shares(run.network->labels(), m);
  if (flags.json) {
    std::string text;
    for (const auto& [name, share] : shares) text += fmt::format(", \"{}\": {}", name, share);
    fmt::print("{{\"loss\": {}{}, \"samples\": {:.0f}}}\n", m.mean_loss(), text, m.samples);
  } else {
    fmt::print("loss {}{} over {:.0f} samples\n", observe::format_loss(m.mean_loss()), node::describe(shares),
               m.samples);
  }
  if (!std::isfinite(m.loss)) return fail(ExitCode::kNotFinite, "the loss is not finite");
  return {};
}

}  // namespace

const Command kEval{
    "eval", "say the loss and accuracy of a trained model", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<EvalFlags>();
      flags->run_file.declare(app);
      add_flag_value(app, "--model", flags->model, "a model.safetensors, or the folder of a checkpoint or a run")
          ->required()
          ->type_name("FILE");
      add_flag_value(app, "--data", flags->part, "which samples")
          ->check(CLI::IsMember({"test", "train"}))
          ->capture_default_str();
      add_flag_value(app, "--batch", flags->batch, "samples at a time")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
      add_switch(app, "--json", flags->json, "print one line of JSON");
      return [flags] {
        const Status done = eval(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
