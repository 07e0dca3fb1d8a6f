#include "config/run_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "config/canonical.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

const std::string kRest = "[data.train]\nformat = \"synthetic\"\n[optimizer]\nlr = 0.1\n[network]\ninput = [1]\n";

std::string errors_of(const std::string& train) {
  Diagnostics d;
  read_run_spec(parsed(train + kRest), d);
  return message_of(d);
}

TEST(RunSpec, EverythingSaid) {
  const Value root = parsed(
      "name = \"lenet-fashion\"\nseed = 7\n"
      "[data.train]\nformat = \"idx\"\n[data.test]\nformat = \"idx\"\n"
      "[train]\nbatch = 128\nmicro_batch = 32\nthreads = 1\nepochs = 5\nlog_every = 10\ncheckpoint_every = 0\n"
      "eval_every = 500\nkeep_checkpoints = 1\nisa = \"avx2\"\nprecision = \"fp32\"\nema = 0.5\nstart_timeout = 30\n"
      "peer_timeout = 0.5\nidle_timeout = 60\nallow_different_arithmetic = true\n"
      "[optimizer]\nlr = 0.05\n[schedule]\ntype = \"cosine\"\n[network]\ninput = [1, 28, 28]\n");
  Diagnostics d;
  const RunSpec run = read_run_spec(root, d);
  EXPECT_EQ(message_of(d), "");
  EXPECT_EQ(run.name, "lenet-fashion");
  EXPECT_EQ(run.seed, 7u);
  EXPECT_EQ(run.train.batch, 128);
  EXPECT_EQ(run.train.micro_batch, 32);
  EXPECT_EQ(run.train.threads, 1);
  EXPECT_EQ(run.train.epochs, 5.0);
  EXPECT_EQ(run.train.steps, std::nullopt);
  EXPECT_EQ(run.train.log_every, 10);
  EXPECT_EQ(run.train.checkpoint_every, 0);
  EXPECT_EQ(run.train.eval_every, 500);
  EXPECT_EQ(run.train.keep_checkpoints, 1);
  EXPECT_EQ(run.train.isa, "avx2");
  EXPECT_EQ(run.train.ema, 0.5);
  EXPECT_EQ(run.train.start_timeout, 30);
  EXPECT_EQ(run.train.peer_timeout, 0.5);
  EXPECT_EQ(run.train.idle_timeout, 60);
  EXPECT_TRUE(run.train.allow_different_arithmetic);
  EXPECT_TRUE(run.data_test);
  EXPECT_TRUE(run.schedule);
  EXPECT_NE(run.network.find("input"), nullptr);
}

TEST(RunSpec, OnlyLbfgsHasAStandardNumberOfSteps) {
  const std::string rest = "[data.train]\nformat = \"idx\"\n[network]\ninput = [1]\n";
  for (const char* optimizer : {"[optimizer]\ntype = \"lbfgs\"\n", "[optimizer]\nlr = 0.1\n"}) {
    Diagnostics d;
    const RunSpec run = read_run_spec(parsed("[train]\nbatch = 8\n" + rest + optimizer), d);
    const bool lbfgs = std::string(optimizer).find("lbfgs") != std::string::npos;
    EXPECT_EQ(d.ok(), lbfgs);
    EXPECT_EQ(run.train.steps, lbfgs ? std::optional<int64_t>(100) : std::nullopt);
  }
}

TEST(RunSpec, Defaults) {
  Diagnostics d;
  const Value root =
      parse_toml("[train]\nbatch = 8\nmicro_batch = \"auto\"\nsteps = 4\n" + kRest, "x/my-run.toml").value();
  const RunSpec run = read_run_spec(root, d);
  EXPECT_EQ(message_of(d), "");
  EXPECT_EQ(run.name, "my-run");
  EXPECT_EQ(run.seed, 1u);
  EXPECT_EQ(run.train.micro_batch, std::nullopt);
  EXPECT_EQ(run.train.threads, std::nullopt);
  EXPECT_EQ(run.train.steps, 4);
  EXPECT_EQ(run.train.log_every, 50);
  EXPECT_EQ(run.train.checkpoint_every, 500);
  EXPECT_EQ(run.train.eval_every, 0);
  EXPECT_EQ(run.train.keep_checkpoints, 3);
  EXPECT_EQ(run.train.precision, "fp32");
  EXPECT_EQ(run.train.ema, 0);
  EXPECT_EQ(run.train.start_timeout, 300);
  EXPECT_EQ(run.train.peer_timeout, 10);
  EXPECT_EQ(run.train.idle_timeout, 3600);
  EXPECT_FALSE(run.train.allow_different_arithmetic);
  EXPECT_FALSE(run.data_test);
  EXPECT_FALSE(run.schedule);
}

TEST(RunSpec, TotalSteps) {
  TrainSpec train;
  train.batch = 128;
  train.epochs = 5;
  EXPECT_EQ(train.total_steps(60'000), 2344);  // 2343.75
  train.epochs = 0.5;
  EXPECT_EQ(train.total_steps(256), 1);
  train.epochs.reset();
  train.steps = 9;
  EXPECT_EQ(train.total_steps(60'000), 9);
  train.steps.reset();
  train.batch = 1;
  train.epochs = 1e9;
  EXPECT_EQ(train.total_steps(1'000'000'000'000), 4'000'000'000) << "as many as can be said";
}

TEST(RunSpec, AMicroBatchMustDivideTheBatch) {
  EXPECT_EQ(errors_of("[train]\nbatch = 120\nmicro_batch = 25\nsteps = 1\n"),
            "run.toml:3:15: error: micro_batch = 25 does not divide batch = 120; the nearest that do: 24 or 30");
  EXPECT_EQ(errors_of("[train]\nbatch = 12\nmicro_batch = 13\nsteps = 1\n"),
            "run.toml:3:15: error: micro_batch = 13 does not divide batch = 12; the nearest that do: 12");
  // What is wrong with the batch says nothing about the micro-batch.
  EXPECT_EQ(errors_of("[train]\nbatch = -3\nmicro_batch = 24\nsteps = 1\n"),
            "run.toml:2:9: error: 'batch' in [train] must be from 1 to 2147483648, got -3");
}

TEST(RunSpec, StepsOrEpochs) {
  EXPECT_EQ(errors_of("[train]\nbatch = 1\n"), "run.toml:1:1: error: [train] needs 'steps' or 'epochs'");
  EXPECT_EQ(errors_of("[train]\nbatch = 1\nsteps = 1\nepochs = 1\n"),
            "run.toml:4:10: error: 'steps' and 'epochs' exclude each other in [train]; remove one");
  EXPECT_EQ(errors_of("[train]\nbatch = 1\nsteps = 0\n"),
            "run.toml:3:9: error: 'steps' in [train] must be from 1 to 4000000000, got 0");
  EXPECT_EQ(errors_of("[train]\nbatch = 1\nsteps = 9223372036854775807\n"),
            "run.toml:3:9: error: 'steps' in [train] must be from 1 to 4000000000, got 9223372036854775807");
  EXPECT_EQ(errors_of("[train]\nbatch = 1\nepochs = 1e300\n"),
            "run.toml:3:10: error: 'epochs' in [train] must be at most 1000000000, got 1e+300");
  EXPECT_EQ(errors_of("[train]\nbatch = 1\nepochs = 0\n"),
            "run.toml:3:10: error: 'epochs' in [train] must be above 0, got 0");
}

TEST(RunSpec, SeveralMistakesAtOnce) {
  EXPECT_EQ(errors_of("nam = \"x\"\nseed = -1\n[train]\nbatch = \"8\"\nstepps = 40\nsteps = 1\nprecision = \"bf61\"\n"
                      "[netwrok]\n[data.valid]\n"),
            "run.toml:1:1: error: unknown key 'nam' in the run file (did you mean 'name'?)\n"
            "run.toml:2:8: error: 'seed' in the run file must be at least 0, got -1\n"
            "run.toml:4:9: error: 'batch' in [train]: expected an integer, got a string \"8\"\n"
            "run.toml:5:1: error: unknown key 'stepps' in [train] (did you mean 'steps'?)\n"
            "run.toml:7:13: error: 'precision' in [train]: unknown value 'bf61' (did you mean 'bf16'?)\n"
            "run.toml:8:2: error: unknown key 'netwrok' in the run file (did you mean 'network'?)\n"
            "run.toml:9:7: error: unknown key 'valid' in [data] (known: predict, test, train)");
}

TEST(RunSpec, MissingTables) {
  Diagnostics d;
  read_run_spec(parsed("name = \"x\"\n"), d);
  EXPECT_EQ(message_of(d),
            "run.toml:1:1: error: the run file needs 'data'\n"
            "run.toml:1:1: error: the run file needs 'train'\n"
            "run.toml:1:1: error: the run file needs 'optimizer'\n"
            "run.toml:1:1: error: the run file needs 'network'");
}

TEST(RunSpec, TheNameMustBeAFoldersName) {
  for (const char* name : {"a/b", "", "..", "a\\nb"}) {
    EXPECT_NE(errors_of("name = \"" + std::string(name) + "\"\n[train]\nbatch = 1\nsteps = 1\n").find("run.toml:1:8"),
              std::string::npos)
        << name;
  }
}

TEST(RunSpec, TheDigestForgetsWhatAResumeMayChange) {
  const Value a = parsed("name = \"a\"\n[train]\nbatch = 1\nsteps = 1\nlog_every = 1\npeer_timeout = 3\n");
  const Value b = parsed("[train]\nbatch = 1\nepochs = 2\ncheckpoint_every = 4\n");
  const Value c = parsed("[train]\nbatch = 2\nepochs = 2\n");
  EXPECT_EQ(canonical_text(a, keys_free_on_resume()), canonical_text(b, keys_free_on_resume()));
  EXPECT_NE(canonical_text(a, keys_free_on_resume()), canonical_text(c, keys_free_on_resume()));
}

}  // namespace
}  // namespace dtrain::config
