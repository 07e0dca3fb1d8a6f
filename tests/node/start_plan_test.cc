#include "node/start_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/out_folder.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/node/solo.h"

namespace dtrain::node {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StartPlanTest : public testing::Test {
 protected:
  Result<StartPlan> plan(const std::vector<std::string>& set = {}, bool resume = false, int64_t workers = 1) {
    const RunDefinition run = folder_.open(kMlp, set);
    return plan_start(run, workers, out_, resume, folder_.files, log_);
  }
  void train(const std::vector<std::string>& set = {}) {
    const SoloResult result = train_solo(folder_.open(kMlp, set), out_.path(), folder_.files);
    ASSERT_EQ(result.code, ExitCode::kDone) << result.said;
  }

  RunFolder folder_;
  OutFolder out_{folder_.path() + "/out"};
  RememberingLog log_;
};

TEST_F(StartPlanTest, ANewRun) {
  const auto p = plan();
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->first_step, 0);
  EXPECT_EQ(p->steps, 8);
  EXPECT_EQ(p->checkpoint, "");
  EXPECT_EQ(p->micro_batches, 2u);
  EXPECT_EQ(p->eval_micro_batches, 5u) << "18 samples by 4";
  EXPECT_EQ(p->threads, 1u);
  EXPECT_TRUE(*folder_.files.exists(out_.path()));
  EXPECT_EQ(log_.text(), "");
}

TEST_F(StartPlanTest, WhatTheRunFileLeavesOpen) {
  const auto p = plan({"train.micro_batch=auto", "train.threads=auto", "train.epochs=2"}, false, 3);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->micro_batches, 4u) << "a batch of 8 for three workers";
  EXPECT_EQ(p->threads, 0u);
  EXPECT_EQ(p->steps, 10) << "twice 40 samples by 8";
  EXPECT_EQ(p->eval_micro_batches, 9u);
}

TEST_F(StartPlanTest, SaysThatWorkersWillIdle) {
  ASSERT_TRUE(plan({}, false, 5));
  EXPECT_THAT(log_.text(), HasSubstr("3 of 5 workers will idle: a step has only 2 micro-batches"));
}

TEST_F(StartPlanTest, ARunThatIsThereIsRefused) {
  train();
  const auto p = plan();
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ExitCode::kUsage);
  EXPECT_THAT(p.error().message, AllOf(HasSubstr(out_.path()), HasSubstr("--resume"), HasSubstr("--out")));
}

TEST_F(StartPlanTest, AResumeTakesTheNewestCheckpoint) {
  train({"train.steps=6", "train.checkpoint_every=4"});
  auto p = plan({}, true, 7);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->first_step, 6);
  EXPECT_EQ(p->steps, 8);
  EXPECT_EQ(p->checkpoint, out_.checkpoints() + "/step-00000006");
  // A damaged one is passed over.
  folder_.write("out/checkpoints/step-00000006/server-0.safetensors", "damaged");
  p = plan({}, true);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->first_step, 4);
  EXPECT_THAT(log_.text(), HasSubstr("step-00000006"));
}

TEST_F(StartPlanTest, AResumeKeepsWhatTheFirstStartFixed) {
  const std::vector<std::string> open{"train.micro_batch=auto", "train.threads=auto"};
  train(open);  // one worker: one micro-batch
  const auto p = plan({"train.micro_batch=auto", "train.threads=auto", "train.steps=9"}, true, 2);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->micro_batches, 1u) << "two workers would have two";
  EXPECT_EQ(p->threads, 1u);
  EXPECT_EQ(p->eval_micro_batches, 3u);
}

TEST_F(StartPlanTest, AResumeWithoutACheckpoint) {
  const auto p = plan({}, true);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ExitCode::kCheckpoint);
  EXPECT_THAT(p.error().message, AllOf(HasSubstr("no complete checkpoint"), HasSubstr("without --resume")));
}

TEST_F(StartPlanTest, AResumeOfAnotherRunFileNamesWhatChanged) {
  train();
  const auto p = plan({"train.steps=20", "train.log_every=3", "optimizer.lr=0.5"}, true);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ExitCode::kUsage);
  EXPECT_THAT(p.error().message,
              AllOf(HasSubstr("another run file"), HasSubstr("optimizer.lr"), HasSubstr("0.01"), HasSubstr("0.5")));
  EXPECT_THAT(p.error().message, AllOf(Not(HasSubstr("fc1")), Not(HasSubstr("log_every"))))
      << "only what is in the way";
}

TEST_F(StartPlanTest, AChangedLayerIsNamedByItsPlace) {
  train();
  const RunDefinition run = folder_.open(std::string(kMlp).replace(kMlp.find("units = 9"), 9, "units = 8"));
  const auto p = plan_start(run, 1, out_, true, folder_.files, log_);
  ASSERT_FALSE(p);
  EXPECT_THAT(p.error().message, HasSubstr("network.layers[0].units"));
}

TEST_F(StartPlanTest, AKeyThatWasNotThere) {
  train();
  const auto p = plan({"optimizer.weight_decay=0.1", "train.steps=9"}, true);
  ASSERT_FALSE(p);
  EXPECT_THAT(p.error().message, HasSubstr("optimizer.weight_decay"));
}

TEST_F(StartPlanTest, FewerStepsThanAreDone) {
  train();
  const auto p = plan({"train.steps=7", "train.log_every=2"}, true);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ExitCode::kUsage);
  EXPECT_THAT(p.error().message, AllOf(HasSubstr("step-00000008"), HasSubstr("the run has 7 steps now")));
}

TEST_F(StartPlanTest, MomentumAndWhatIsSentLater) {
  const auto said = [this](const char* method, const char* momentum) {
    RunFolder folder;
    RememberingLog log;
    const RunDefinition run =
        folder.open(kMlp, {"optimizer={type=\"sgd\",lr=0.1,momentum=" + std::string(momentum) + "}",
                           "train.compression=" + std::string(method)});
    EXPECT_TRUE(plan_start(run, 1, OutFolder(folder.path() + "/out"), false, folder.files, log));
    return log.text();
  };
  const char* const mxnets = "{type=\"2bit\",threshold=0.5}";
  EXPECT_THAT(said(mxnets, "0.9"), AllOf(HasSubstr("momentum = 0.9"), HasSubstr("'2bit'")));
  EXPECT_THAT(said(mxnets, "0.5"), HasSubstr("'2bit'"));
  EXPECT_EQ(said(mxnets, "0.4"), "");
  EXPECT_EQ(said("bf16", "0.9"), "") << "all is sent at once";
  for (const char* method : {"1bit", "2bit", "topk", "dgc"})
    EXPECT_EQ(said(method, "0.9"), "") << method << ": the momentum acts before the choice";
  EXPECT_THAT(said("topk", "0.9,clip_norm=1"), HasSubstr("'topk'")) << "it is the servers', who clip before it";
}

TEST(OutFolder, MakesAFolderAndRefusesEveryTraceOfARun) {
  RunFolder folder;
  const OutFolder out(folder.path() + "/a/b");
  ASSERT_TRUE(out.create(folder.files));
  ASSERT_TRUE(out.create(folder.files)) << "nothing is in it yet";
  folder.write("a/b/other.txt", "not a run's");
  ASSERT_TRUE(out.create(folder.files));
  EXPECT_EQ(out.metrics(), out.path() + "/metrics.jsonl");

  const auto refused = [&](const std::string& what) {
    const Status status = out.create(folder.files);
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(status.error().code, ExitCode::kUsage);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr(out.path()), HasSubstr(what)));
  };
  folder.write("a/b/metrics.jsonl", "{}\n");
  refused("metrics.jsonl");
  ASSERT_TRUE(folder.files.remove_tree(out.metrics()));
  folder.write("a/b/model.safetensors", "x");
  refused("model.safetensors");
  ASSERT_TRUE(folder.files.remove_tree(out.model()));
  ASSERT_TRUE(folder.files.make_directories(out.checkpoints() + "/step-00000001"));
  refused("checkpoints");
}

TEST(OutFolder, ADiskThatDoesNotAnswer) {
  RunFolder folder;
  checkpoint::FaultyFileSystem faulty(folder.files, 0);
  const Status status = OutFolder(folder.path() + "/out").create(faulty);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kUsage);
  EXPECT_THAT(status.error().message, HasSubstr("No space left"));
}

TEST(EndsEpoch, OncePerPassOverTheData) {
  std::vector<int64_t> ends;
  for (int64_t version = 0; version <= 20; ++version)
    if (ends_epoch(version, 8, 40)) ends.push_back(version);
  EXPECT_EQ(ends, (std::vector<int64_t>{5, 10, 15, 20}));
  ends.clear();
  for (int64_t version = 0; version <= 10; ++version)
    if (ends_epoch(version, 8, 18)) ends.push_back(version);
  EXPECT_EQ(ends, (std::vector<int64_t>{3, 5, 7, 9})) << "samples 18, 36, 54, 72 are within batches 3, 5, 7, 9";
  EXPECT_TRUE(ends_epoch(1, 8, 3)) << "a batch larger than the data";
  EXPECT_FALSE(ends_epoch(0, 8, 3));
}

TEST(CoordinatorOptions, FromRunFileAndPlan) {
  RunFolder folder;
  const RunDefinition run =
      folder.open(kConvNet, {"train.peer_timeout=2.5", "train.eval_every=0", "train.checkpoint_every=6"});
  StartPlan plan;
  plan.first_step = 3;
  plan.steps = 8;
  plan.micro_batches = 3;
  plan.eval_micro_batches = 4;
  plan.threads = 2;
  plan.checkpoint = "there";
  const cluster::CoordinatorOptions options = coordinator_options(run, plan, "folder");
  EXPECT_EQ(options.first_step, 3);
  EXPECT_EQ(options.steps, 8);
  EXPECT_EQ(options.micro_batches, 3u);
  EXPECT_EQ(options.eval_micro_batches, 4u);
  EXPECT_EQ(options.threads, 2u);
  EXPECT_EQ(options.checkpoint, "there");
  EXPECT_EQ(options.checkpoint_every, 6);
  EXPECT_EQ(options.checkpoint_folder, "folder");
  EXPECT_EQ(options.norms.clip_norm, 1.0);
  EXPECT_EQ(options.peer_timeout, 2500 * kMillisecond);
  EXPECT_DOUBLE_EQ(options.rate(0), 0.05 / 2) << "warming up over two steps";
  ASSERT_TRUE(options.eval_at);
  EXPECT_FALSE(options.eval_at(3));
  EXPECT_TRUE(options.eval_at(4)) << "48 of 40 samples";
  const RunDefinition often = folder.open(kConvNet, {"train.eval_every=2", "train.log_every=1"});
  EXPECT_FALSE(coordinator_options(often, plan, "folder").eval_at);
  EXPECT_EQ(coordinator_options(often, plan, "folder").eval_every, 2);
}

}  // namespace
}  // namespace dtrain::node
