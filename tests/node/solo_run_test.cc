#include "node/solo_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/node/solo.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

std::vector<nlohmann::json> rows(const std::string& out, bool steps) {
  std::vector<nlohmann::json> found;
  for (const std::string& line : lines_of(out + "/metrics.jsonl")) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("event") != steps) found.push_back(std::move(json));
  }
  return found;
}

std::string state_hash(const std::string& checkpoint) {
  const RealFileSystem files;
  const auto reader = checkpoint::LogicalReader::open(files, checkpoint);
  EXPECT_TRUE(reader) << reader.error().message;
  const auto hash = checkpoint::state_hash(*reader);
  EXPECT_TRUE(hash) << hash.error().message;
  return to_hex(*hash);
}

class SoloRunTest : public testing::TestWithParam<const std::string*> {
 protected:
  std::string out(const std::string& name) const { return folder_.path() + "/" + name; }
  SoloResult train(const std::string& name, const std::vector<std::string>& set = {}, const SoloOptions& options = {}) {
    const RunDefinition run = folder_.open(*GetParam(), set);
    return train_solo(run, out(name), folder_.files, options);
  }
  RunFolder folder_;
};

TEST_P(SoloRunTest, TrainsToTheEndAndLeavesItsFiles) {
  const SoloResult result = train("out", {"train.steps=40", "train.eval_every=20"});
  EXPECT_EQ(result.code, ExitCode::kDone) << result.said;
  const auto steps = rows(out("out"), true);
  ASSERT_EQ(steps.size(), 40u);
  for (size_t s = 0; s < steps.size(); ++s) EXPECT_EQ(steps[s]["step"], s + 1);
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.9 * steps.front()["loss"].get<double>());
  std::vector<std::string> events;
  for (const auto& row : rows(out("out"), false)) events.push_back(row["event"]);
  EXPECT_EQ(events.front(), "begin");
  EXPECT_EQ(std::count(events.begin(), events.end(), "eval"), 2);
  EXPECT_EQ(std::count(events.begin(), events.end(), "checkpoint"), 1);
  EXPECT_EQ(events.back(), "end");
  EXPECT_FALSE(bytes_of(out("out") + "/model.safetensors").empty());
  EXPECT_THAT(result.said, HasSubstr("done: 40 steps"));
}

TEST_P(SoloRunTest, TwiceTheSameIsTheSame) {
  ASSERT_EQ(train("a").code, ExitCode::kDone);
  ASSERT_EQ(train("b").code, ExitCode::kDone);
  EXPECT_EQ(bytes_of(out("a") + "/model.safetensors"), bytes_of(out("b") + "/model.safetensors"));
  ASSERT_EQ(train("c", {"seed=8"}).code, ExitCode::kDone);
  EXPECT_NE(bytes_of(out("a") + "/model.safetensors"), bytes_of(out("c") + "/model.safetensors"));
}

TEST_P(SoloRunTest, InterruptedAndResumedIsBitForBitTheSame) {
  ASSERT_EQ(train("whole").code, ExitCode::kDone);

  const SoloResult broken = train("parts", {}, {.interrupt_after = 3});
  EXPECT_EQ(broken.code, ExitCode::kInterrupted);
  EXPECT_THAT(broken.said, HasSubstr("interrupted after step"));
  const auto interrupted_at = static_cast<int64_t>(rows(out("parts"), true).size());
  EXPECT_GE(interrupted_at, 3);
  EXPECT_LT(interrupted_at, 8);
  EXPECT_EQ(rows(out("parts"), false).back()["event"], "stopped");
  EXPECT_EQ(rows(out("parts"), false).back()["exit_code"], 130);

  const SoloResult resumed = train("parts", {}, {.resume = true});
  EXPECT_EQ(resumed.code, ExitCode::kDone) << resumed.said;
  EXPECT_THAT(resumed.said, HasSubstr("goes on after step " + std::to_string(interrupted_at)));
  EXPECT_EQ(bytes_of(out("parts") + "/model.safetensors"), bytes_of(out("whole") + "/model.safetensors"));
  EXPECT_EQ(state_hash(out("parts") + "/checkpoints/step-00000008"),
            state_hash(out("whole") + "/checkpoints/step-00000008"));
  const auto a = rows(out("whole"), true), b = rows(out("parts"), true);
  ASSERT_EQ(a.size(), b.size());
  for (size_t s = 0; s < a.size(); ++s) {
    for (const char* key : {"step", "loss", "accuracy", "lr", "epoch"}) EXPECT_EQ(a[s][key], b[s][key]) << key << s;
  }
}

TEST_P(SoloRunTest, WhatWasWrittenOnTheWayDoesNotShow) {
  ASSERT_EQ(train("plain").code, ExitCode::kDone);
  ASSERT_EQ(train("busy", {"train.checkpoint_every=1", "train.keep_checkpoints=2", "train.eval_every=1"}).code,
            ExitCode::kDone);
  EXPECT_EQ(bytes_of(out("plain") + "/model.safetensors"), bytes_of(out("busy") + "/model.safetensors"));
  const auto left = folder_.files.list(out("busy") + "/checkpoints");
  ASSERT_TRUE(left);
  EXPECT_EQ(*left, (std::vector<std::string>{"step-00000007", "step-00000008"}));
}

TEST_P(SoloRunTest, MoreStepsGoOnFromTheEnd) {
  const bool schedule = GetParam() == &kConvNet;  // the cosine's length depends on the steps
  const std::vector<std::string> constant =
      schedule ? std::vector<std::string>{"schedule.type=constant"} : std::vector<std::string>{};
  auto with = [&](const std::string& steps) {
    auto set = constant;
    set.push_back(steps);
    return set;
  };
  ASSERT_EQ(train("long", with("train.steps=9")).code, ExitCode::kDone);
  ASSERT_EQ(train("short", with("train.steps=6")).code, ExitCode::kDone);
  ASSERT_EQ(train("short", with("train.steps=9"), {.resume = true}).code, ExitCode::kDone);
  EXPECT_EQ(bytes_of(out("short") + "/model.safetensors"), bytes_of(out("long") + "/model.safetensors"));
}

// Killed between the last checkpoint and the model's file.
TEST_P(SoloRunTest, AResumeAtTheEndWritesTheModelThatIsMissing) {
  ASSERT_EQ(train("out").code, ExitCode::kDone);
  const std::string model = bytes_of(out("out") + "/model.safetensors");
  const std::string hash = rows(out("out"), false).back()["model"];
  ASSERT_TRUE(folder_.files.remove_tree(out("out") + "/model.safetensors"));
  const SoloResult result = train("out", {}, {.resume = true});
  EXPECT_EQ(result.code, ExitCode::kDone) << result.said;
  EXPECT_EQ(bytes_of(out("out") + "/model.safetensors"), model);
  EXPECT_EQ(rows(out("out"), false).back()["model"], hash);
  EXPECT_THAT(result.said, testing::Not(HasSubstr("loss 0.0000"))) << "no step was made";
}

TEST_P(SoloRunTest, KeepsAnAverageOfTheWeights) {
  ASSERT_EQ(train("plain").code, ExitCode::kDone);
  EXPECT_TRUE(bytes_of(out("plain") + "/model-ema.safetensors").empty());
  ASSERT_EQ(train("whole", {"train.ema=0.5"}).code, ExitCode::kDone);
  EXPECT_EQ(bytes_of(out("whole") + "/model.safetensors"), bytes_of(out("plain") + "/model.safetensors"));
  const std::string average = bytes_of(out("whole") + "/model-ema.safetensors");
  EXPECT_FALSE(average.empty());
  EXPECT_NE(average, bytes_of(out("whole") + "/model.safetensors"));
  // The average of the steps before lies in each checkpoint.
  EXPECT_EQ(train("parts", {"train.ema=0.5"}, {.interrupt_after = 3}).code, ExitCode::kInterrupted);
  ASSERT_EQ(train("parts", {"train.ema=0.5"}, {.resume = true}).code, ExitCode::kDone);
  EXPECT_EQ(bytes_of(out("parts") + "/model-ema.safetensors"), average);
}

TEST_P(SoloRunTest, BeginsWithAGivenModel) {
  ASSERT_EQ(train("first").code, ExitCode::kDone);
  const std::string model = out("first") + "/model.safetensors";
  ASSERT_EQ(train("a", {}, {.init_model = model}).code, ExitCode::kDone);
  EXPECT_LT(rows(out("a"), true).front()["loss"].get<double>(), rows(out("first"), true).front()["loss"].get<double>());
  const SoloResult other = train("b", {"seed=99"}, {.init_model = folder_.path() + "/nowhere"});
  EXPECT_NE(other.code, ExitCode::kDone);
  EXPECT_THAT(other.said, HasSubstr("nowhere"));
}

TEST_P(SoloRunTest, AnInfiniteGradientEndsTheRunAndIsNamed) {
  const SoloResult result = train("out", {"optimizer.lr=1e30", "schedule.type=constant"});
  EXPECT_EQ(result.code, ExitCode::kNotFinite) << result.said;
  EXPECT_THAT(result.said, testing::AnyOf(HasSubstr("is not finite"), HasSubstr("the loss is"),
                                          HasSubstr("the norm of the gradient is")));
  EXPECT_THAT(result.said, HasSubstr("step "));
  EXPECT_EQ(rows(out("out"), false).back()["exit_code"], 7);
}

INSTANTIATE_TEST_SUITE_P(Networks, SoloRunTest, testing::Values(&kMlp, &kConvNet),
                         [](const auto& info) { return info.param == &kMlp ? "Mlp" : "ConvNet"; });

TEST(SoloRun, ALearningRateThatIsNoNumberIsRefused) {
  const RunFolder folder;
  const auto run = folder.read(kMlp, {"optimizer.lr=nan"});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ExitCode::kUsage);
  EXPECT_THAT(run.error().message, HasSubstr("'lr'"));
}

TEST(SoloRun, AnInfiniteLossEndsTheRunAndIsNamed) {
  RunFolder folder;
  // Squared errors of 1e30 · samples leave fp32, in the forward pass.
  const std::string text = R"(
[data.train]
format = "npy"
inputs = "x.npy"
labels = "y.npy"
[train]
batch = 2
steps = 3
[optimizer]
lr = 0.1
[network]
input = [2]
layers = [{ name = "fc", type = "linear", units = 1 }, { type = "mse" }]
)";
  folder.write("x.npy", npy_file("<f4", "2, 2", bytes_of(std::vector<float>{1e30F, -2e30F, 3e30F, 1e30F})));
  folder.write("y.npy", npy_file("<f4", "2, 1", bytes_of(std::vector<float>{1, 2})));
  const RunDefinition run = folder.open(text);
  const SoloResult result = train_solo(run, folder.path() + "/out", folder.files);
  EXPECT_EQ(result.code, ExitCode::kNotFinite) << result.said;
  EXPECT_THAT(result.said, HasSubstr("step 0"));
  EXPECT_THAT(result.said, testing::AnyOf(HasSubstr("the loss is inf"), HasSubstr("the gradient of 'fc")));
}

TEST(SoloRun, ADamagedFileEndsTheRunWithItsName) {
  RunFolder folder;
  RunDefinition run = folder.open(kMlp);
  class Damaged final : public data::Dataset {
   public:
    explicit Damaged(std::shared_ptr<const data::Dataset> of) : of_(std::move(of)) {}
    int64_t size() const override { return of_->size(); }
    const Shape& sample_shape() const override { return of_->sample_shape(); }
    const data::LabelSpec& labels() const override { return of_->labels(); }
    int64_t max_label() const override { return of_->max_label(); }
    Digest digest() const override { return of_->digest(); }
    Status read(const data::Draw& draw, data::SampleOut sample, data::LabelOut label) const override {
      if (draw.index == 17) return fail(ExitCode::kData, "train.idx: sample 17 is damaged");
      return of_->read(draw, sample, label);
    }

   private:
    std::shared_ptr<const data::Dataset> of_;
  };
  run.train = std::make_shared<Damaged>(run.train);
  const SoloResult result = train_solo(run, folder.path() + "/out", folder.files);
  EXPECT_EQ(result.code, ExitCode::kData);
  EXPECT_THAT(result.said, HasSubstr("sample 17 is damaged"));
}

// Whatever operation on the disk fails: the run ends, says so where it matters, and never claims a model that is not
// there.
TEST(SoloRun, AFullDiskNeverEndsAsDoneWithoutAModel) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp, {"train.steps=4", "train.checkpoint_every=2", "train.log_every=1"});
  checkpoint::FaultyFileSystem counting(folder.files);
  ASSERT_EQ(train_solo(run, folder.path() + "/whole", counting).code, ExitCode::kDone);
  const std::string model = bytes_of(folder.path() + "/whole/model.safetensors");
  for (int64_t at = 0; at < counting.operations(); ++at) {
    const std::string out = folder.path() + "/out" + std::to_string(at);
    checkpoint::FaultyFileSystem faulty(folder.files, at, true);
    const SoloResult result = train_solo(run, out, faulty);
    if (result.code == ExitCode::kDone) {
      EXPECT_EQ(bytes_of(out + "/model.safetensors"), model) << at;
    } else {
      EXPECT_THAT(result.said, HasSubstr("No space left on device")) << at;
    }
    std::filesystem::remove_all(out);
  }
}

}  // namespace
}  // namespace dtrain::node
