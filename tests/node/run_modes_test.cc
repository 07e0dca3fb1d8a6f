// What cannot go together with a consistency mode is said with its reason and its place, before anything starts.
#include "node/run_modes.h"

#include <gmock/gmock.h>

#include "node/memory_estimate.h"
#include "node/out_folder.h"
#include "node/start_plan.h"
#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunModesTest : public testing::Test {
 protected:
  // kMlp (K = 2, eight steps, Adam) with more lines in [train], and in [optimizer].
  static std::string text(const std::string& train, const std::string& optimizer = "type = \"adam\"",
                          const std::string& more = "") {
    std::string out = kMlp;
    out.replace(out.find("[train]\n"), 8, "[train]\n" + train + "\n");
    const std::string adam = "type = \"adam\"";
    out.replace(out.find(adam), adam.size(), optimizer);
    return out + more;
  }
  std::string refused(const std::string& train, const std::string& optimizer = "type = \"adam\"",
                      const std::string& more = "") {
    const auto run = folder_.read(text(train, optimizer, more));
    if (run) return "";
    EXPECT_EQ(run.error().code, ExitCode::kUsage);
    return run.error().message;
  }
  RunDefinition open(const std::string& train, const std::string& optimizer = "type = \"adam\"",
                     const std::string& more = "", const std::vector<std::string>& set = {}) {
    return folder_.open(text(train, optimizer, more), set);
  }
  std::string warned(const std::string& train, const std::string& optimizer, int64_t workers = 2) {
    RememberingLog log;
    const RunDefinition run = open(train, optimizer);
    OutFolder out(folder_.path() + fmt::format("/out{}", ++outs_));
    const auto plan = plan_start(run, workers, out, false, folder_.files, log);
    EXPECT_TRUE(plan) << plan.error().message;
    return log.text();
  }

  RunFolder folder_;
  int outs_ = 0;
};

constexpr const char* kStale = "consistency = { type = \"stale\", bound = 1 }";
constexpr const char* kBackup = "consistency = { type = \"backup\", needed = 2 }";
constexpr const char* kAsync = "consistency = \"async\"";
constexpr const char* kLocal = "consistency = { type = \"local\", steps = 4 }";

TEST_F(RunModesTest, WhatIsLeftOut) {
  const RunDefinition run = open("");
  EXPECT_EQ(run.rule->mode().name, "sync");
  EXPECT_TRUE(run.speculate);
  EXPECT_FALSE(run.local_steps());
  EXPECT_FALSE(open("speculation = false").speculate);
  EXPECT_FALSE(open(kAsync).speculate);
  EXPECT_FALSE(open(kBackup).speculate);
  EXPECT_FALSE(open(kStale).speculate);
  EXPECT_TRUE(open(kLocal).speculate) << "a round is a fact, too";
}

TEST_F(RunModesTest, AnUnknownModeAndItsKeys) {
  EXPECT_THAT(refused("consistency = \"asink\""), AllOf(HasSubstr("run.toml:14:15"), HasSubstr("async")));
  EXPECT_THAT(refused("consistency = { type = \"stale\", bound = -1 }"),
              AllOf(HasSubstr("run.toml:14:"), HasSubstr("bound")));
  EXPECT_THAT(refused("consistency = { type = \"backup\", needed = 0 }"), HasSubstr("needed"));
  EXPECT_THAT(refused("consistency = { type = \"async\", fetch_every = 0 }"), HasSubstr("fetch_every"));
  EXPECT_THAT(refused("consistency = { type = \"local\", steps = 0 }"), HasSubstr("steps"));
}

TEST_F(RunModesTest, SpeculationWantsTheSameBits) {
  for (const char* mode : {kStale, kBackup, kAsync})
    EXPECT_THAT(refused(std::string(mode) + "\nspeculation = true"),
                AllOf(HasSubstr("run.toml:15:15"), HasSubstr("'speculation' in [train] is not for consistency")));
  EXPECT_THAT(refused("speculation = true"), IsEmpty());
  EXPECT_THAT(refused(std::string(kLocal) + "\nspeculation = true"), IsEmpty());
}

TEST_F(RunModesTest, ThePromiseOfTheSameBits) {
  for (const char* mode : {kStale, kBackup, kAsync})
    EXPECT_THAT(refused(std::string(mode) + "\nreproducible = true"),
                AllOf(HasSubstr("run.toml:15:16"), HasSubstr("'reproducible' in [train] is true")));
  EXPECT_THAT(refused("reproducible = true\nallow_different_arithmetic = true"),
              AllOf(HasSubstr("run.toml:14:16"), HasSubstr("allow_different_arithmetic")));
  EXPECT_THAT(refused("reproducible = true"), IsEmpty());
  EXPECT_THAT(refused(std::string(kLocal) + "\nreproducible = true"), IsEmpty());
  EXPECT_THAT(refused("consistency = { type = \"stale\", bound = 0 }\nreproducible = true"), IsEmpty());
}

TEST_F(RunModesTest, MorePushesThanThereAre) {
  EXPECT_THAT(refused("consistency = { type = \"backup\", needed = 3 }"),
              AllOf(HasSubstr("run.toml:14:15"), HasSubstr("'needed' = 3"), HasSubstr("only 2")));
  // Left to dtrain, K depends on the cluster: said at the start.
  const RunDefinition run =
      open("consistency = { type = \"backup\", needed = 3 }\n", "type = \"adam\"", "", {"train.micro_batch=auto"});
  RememberingLog log;
  OutFolder out(folder_.path() + "/out");
  const auto plan = plan_start(run, 2, out, false, folder_.files, log);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ExitCode::kUsage);
  EXPECT_THAT(plan.error().message, AllOf(HasSubstr("3 pushes"), HasSubstr("only 2 micro-batches")));
  EXPECT_FALSE(*folder_.files.exists(out.path())) << "nothing has been made";
  EXPECT_TRUE(plan_start(run, 4, out, false, folder_.files, log));
}

TEST_F(RunModesTest, OptimizersThatNeedWholeSteps) {
  for (const char* optimizer : {"type = \"lars\"", "type = \"lamb\""}) {
    for (const char* mode : {kAsync, kLocal})
      EXPECT_THAT(refused(mode, optimizer), AllOf(HasSubstr("run.toml:14:15"), HasSubstr("lars, lamb"))) << optimizer;
    for (const char* mode : {kStale, kBackup}) EXPECT_THAT(refused(mode, optimizer), IsEmpty()) << optimizer;
  }
  std::string lbfgs = kMlp;
  lbfgs.erase(lbfgs.find("lr = 0.01\n"), 10);
  for (const char* mode : {kStale, kBackup, kAsync, kLocal}) {
    std::string run = lbfgs;
    run.replace(run.find("type = \"adam\""), 13, "type = \"lbfgs\"");
    run.replace(run.find("[train]\n"), 8, std::string("[train]\n") + mode + "\n");
    const auto read = folder_.read(run);
    ASSERT_FALSE(read) << mode;
    EXPECT_THAT(read.error().message, AllOf(HasSubstr("run.toml:14:15"), HasSubstr("lbfgs")));
  }
}

TEST_F(RunModesTest, RoundsFitTheSteps) {
  EXPECT_THAT(refused("consistency = { type = \"local\", steps = 3 }"),
              AllOf(HasSubstr("run.toml:18:9"), HasSubstr("'steps' = 8"), HasSubstr("multiple of the 3")));
  // Epochs are rounded up to whole rounds.
  const RunDefinition run =
      open("consistency = { type = \"local\", steps = 4 }", "type = \"adam\"", "", {"train.epochs=1.1"});
  EXPECT_EQ(run.total_steps(), 8) << "1.1 · 40 samples by 8 are 6 steps";
}

TEST_F(RunModesTest, TheOuterOptimizerIsForLocalSteps) {
  const std::string outer = "[outer_optimizer]\ntype = \"sgd\"\nlr = 0.5\n";
  for (const char* mode : {"", kStale, kBackup, kAsync})
    EXPECT_THAT(refused(mode, "type = \"adam\"", outer),
                AllOf(HasSubstr("[outer_optimizer] is for consistency = 'local' only"), HasSubstr("run.toml:")))
        << mode;
  const RunDefinition run = open(kLocal, "type = \"adam\"", outer);
  EXPECT_EQ(run.optimizer.rate, 0.5);
  EXPECT_EQ(run.worker_optimizer.rate, 0.01);
  EXPECT_EQ(run.rate_at(3, 8), 0.5) << "the schedule is for the inner one";
  EXPECT_THAT(refused(kLocal, "type = \"adam\"", "[outer_optimizer]\ntype = \"lbfgs\"\n"), HasSubstr("lbfgs"));
  EXPECT_THAT(refused(kLocal, "type = \"adam\"", "[outer_optimizer]\ntype = \"sgd\"\n"),
              HasSubstr("[outer_optimizer]"));
}

TEST_F(RunModesTest, WithoutOneItIsDiLoCos) {
  const RunDefinition run = open(kLocal);
  EXPECT_EQ(run.optimizer.rate, 0.7);
  EXPECT_EQ(run.optimizer.optimizer->slots(), 1u) << "momentum";
  EXPECT_EQ(run.worker_optimizer.rate, 0.01);
}

// Heavy-ball momentum and a delay make each other worse.
TEST_F(RunModesTest, MomentumWithStaleGradientsIsWarnedOf) {
  const char* const much = "type = \"sgd\"\nmomentum = 0.9";
  for (const char* mode : {kStale, kAsync})
    EXPECT_THAT(warned(mode, much), AllOf(HasSubstr("momentum = 0.9"), HasSubstr("38 times lower"))) << mode;
  for (const char* mode : {"", kBackup, kLocal, "consistency = { type = \"stale\", bound = 0 }"})
    EXPECT_THAT(warned(mode, much), Not(HasSubstr("momentum"))) << mode;
  EXPECT_THAT(warned(kAsync, "type = \"sgd\"\nmomentum = 0.4"), Not(HasSubstr("momentum")));
  EXPECT_THAT(warned(kAsync, "type = \"adam\""), Not(HasSubstr("momentum")));
  EXPECT_THAT(warned(kAsync, much, 1), Not(HasSubstr("momentum"))) << "one worker waits for nobody else's";
}

// What a mode takes more than synchronous training does.
TEST_F(RunModesTest, Memory) {
  const RunDefinition sync = open("");
  const ps::BlockTable table(sync.network->parameters(), 1);
  double bytes = 0;
  for (const ps::Block& block : table.blocks()) bytes += static_cast<double>(block.elements) * sizeof(float);
  const auto of = [&](const std::string& train) {
    const RunDefinition run = open(train);
    const auto memory = estimate_memory(run, table, 2, 3);
    EXPECT_TRUE(memory) << memory.error().message;
    return *memory;
  };
  const MemoryEstimate plain = of("");
  EXPECT_EQ(plain.own_steps, 0);
  EXPECT_EQ(plain.behind, 0);
  EXPECT_EQ(of("consistency = { type = \"stale\", bound = 3 }").behind, 4 * bytes);
  EXPECT_EQ(of(kAsync).behind, 0);
  const MemoryEstimate compensated = of("consistency = { type = \"async\", delay_compensation = 0.1, push_every = 2 }");
  EXPECT_EQ(compensated.behind, 3 * bytes) << "a version for each worker";
  EXPECT_EQ(compensated.gradients, 2 * of(kAsync).gradients);
  const MemoryEstimate local = of(kLocal);
  EXPECT_GE(local.own_steps, 3 * bytes) << "a copy, and Adam's two";
  EXPECT_EQ(local.worker() - local.own_steps, plain.worker());
  EXPECT_EQ(local.slots, bytes) << "of the outer momentum";
}

}  // namespace
}  // namespace dtrain::node
