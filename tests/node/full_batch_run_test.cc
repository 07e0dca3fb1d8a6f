
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "optim/lbfgs.h"
#include "tests/node/solo.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

// The net of Spark MLlib's MultilayerPerceptronClassifier: sigmoid inside, softmax at the end.
std::string perceptron(const std::string& samples, int64_t inputs, int64_t hidden, int64_t classes) {
  return fmt::format(R"(
name = "perceptron"
seed = 7
[data.train]
format = "npy"
inputs = "x.npy"
labels = "y.npy"
[train]
batch = {}
threads = 1
log_every = 1
checkpoint_every = 0
[optimizer]
type = "lbfgs"
[network]
input = [{}]
layers = [
  {{ name = "hidden", type = "linear", units = {}, activation = "sigmoid" }},
  {{ name = "out", type = "linear", units = {} }},
  {{ type = "softmax_cross_entropy" }},
]
)",
                     samples, inputs, hidden, classes);
}

// With statistics and random numbers; the micro-batches are a tree of four.
const std::string kOddNet = R"(
name = "odd"
[data.train]
format = "synthetic"
samples = 32
classes = 3
[data.test]
format = "synthetic"
samples = 10
classes = 3
[train]
batch = 32
micro_batch = 8
threads = 1
steps = 8
log_every = 1
checkpoint_every = 0
eval_every = 3
[optimizer]
type = "lbfgs"
history = 3
[network]
input = [2, 6, 6]
layers = [
  { name = "conv", type = "conv2d", filters = 5, kernel = 3, bias = false },
  { name = "bn", type = "batch_norm", activation = "tanh" },
  { type = "dropout", rate = 0.3 },
  { type = "flatten" },
  { name = "fc", type = "linear", units = 3 },
  { type = "softmax_cross_entropy" },
]
)";

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
  return to_hex(checkpoint::state_hash(*reader).value());
}

class FullBatchRunTest : public testing::Test {
 protected:
  std::string out(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string model(const std::string& name) const { return bytes_of(out(name) + "/model.safetensors"); }
  SoloResult train(const std::string& text, const std::string& name, const std::vector<std::string>& set = {},
                   const SoloOptions& options = {}) {
    const RunDefinition run = folder_.open(text, set);
    return train_solo(run, out(name), folder_.files, options);
  }
  void write_data(const std::vector<float>& x, int64_t inputs, const std::vector<int32_t>& y) {
    folder_.write("x.npy", npy_file("<f4", fmt::format("{}, {}", y.size(), inputs), bytes_of(x)));
    folder_.write("y.npy", npy_file("<i4", fmt::format("{},", y.size()),
                                    {reinterpret_cast<const char*>(y.data()), y.size() * sizeof(int32_t)}));
  }
  // Three clouds of points in four dimensions, as far apart as Fisher's irises: a little of two of them overlaps.
  void write_clouds() {
    std::vector<float> x;
    std::vector<int32_t> y;
    uint32_t state = 1;
    const auto noise = [&state] {  // the sum of three uniform deviates
      float sum = 0;
      for (int i = 0; i < 3; ++i) {
        state = state * 1664525u + 1013904223u;
        sum += static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
      }
      return sum;
    };
    const float centres[3][4] = {{-1, 0.5f, -1, -1}, {0.2f, -0.5f, 0.3f, 0.2f}, {0.9f, 0, 1, 1}};
    for (int32_t i = 0; i < 150; ++i) {
      y.push_back(i % 3);
      for (const float centre : centres[i % 3]) x.push_back(centre + 0.6f * noise());
    }
    write_data(x, 4, y);
  }

  RunFolder folder_;
};

// The exclusive or is not linear: without the hidden layer the loss stays at log 2 = 0.69.
TEST_F(FullBatchRunTest, LearnsTheExclusiveOr) {
  write_data({0, 0, 0, 1, 1, 0, 1, 1}, 2, {0, 1, 1, 0});
  const SoloResult result = train(perceptron("4", 2, 5, 2), "out");
  ASSERT_EQ(result.code, ExitCode::kDone) << result.said;
  const auto steps = rows(out("out"), true);
  ASSERT_LE(steps.size(), 100u) << "the standard number of steps";
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.01);
  EXPECT_EQ(steps.back()["accuracy"], 1.0);
  for (size_t s = 1; s < steps.size(); ++s)
    EXPECT_LT(steps[s]["loss"].get<double>(), steps[s - 1]["loss"].get<double>()) << "each step is better";
}

TEST_F(FullBatchRunTest, TellsCloudsApart) {
  write_clouds();
  const SoloResult result = train(perceptron("150", 4, 5, 3), "out");
  ASSERT_EQ(result.code, ExitCode::kDone) << result.said;
  EXPECT_LT(rows(out("out"), true).back()["loss"].get<double>(), 0.05);
  // The same in another order of addition.
  ASSERT_EQ(train(perceptron("150", 4, 5, 3), "cut", {"train.micro_batch=25", "train.steps=5"}).code, ExitCode::kDone);
  const auto whole = rows(out("out"), true), cut = rows(out("cut"), true);
  ASSERT_EQ(cut.size(), 5u);
  for (size_t s = 0; s < 5; ++s) EXPECT_NEAR(whole[s]["loss"].get<double>(), cut[s]["loss"].get<double>(), 1e-4);
}

TEST_F(FullBatchRunTest, EndsWhenItHasConverged) {
  write_clouds();
  const std::string text = perceptron("150", 4, 5, 3);
  const SoloResult result = train(text, "out", {"optimizer.tolerance=0.01", "train.log_every=1000"});
  ASSERT_EQ(result.code, ExitCode::kDone) << result.said;
  EXPECT_THAT(result.said, HasSubstr("converged to loss"));
  const auto steps = rows(out("out"), true);
  ASSERT_EQ(steps.size(), 1u) << "the last step has its row";
  const int64_t last = steps[0]["step"];
  EXPECT_LT(last, 60);
  EXPECT_EQ(rows(out("out"), false).back()["step"], last);
  EXPECT_THAT(result.said, HasSubstr(fmt::format("done: {} steps", last)));
  const auto left = folder_.files.list(out("out") + "/checkpoints");
  EXPECT_EQ(*left, std::vector<std::string>{fmt::format("step-{:08}", last)});
  EXPECT_FALSE(model("out").empty());
  EXPECT_EQ(train(text, "out", {"optimizer.tolerance=0.01", "train.log_every=1000"}, {.resume = true}).code,
            ExitCode::kDone);
}

TEST_F(FullBatchRunTest, TwiceTheSameIsTheSame) {
  ASSERT_EQ(train(kOddNet, "a").code, ExitCode::kDone);
  ASSERT_EQ(train(kOddNet, "b", {"train.checkpoint_every=1", "train.eval_every=1"}).code, ExitCode::kDone);
  EXPECT_EQ(model("a"), model("b"));
  ASSERT_EQ(train(kOddNet, "c", {"seed=8"}).code, ExitCode::kDone);
  EXPECT_NE(model("a"), model("c"));
  std::vector<int64_t> evals;
  for (const auto& row : rows(out("a"), false))
    if (row["event"] == "eval") evals.push_back(row["step"]);
  EXPECT_EQ(evals, (std::vector<int64_t>{3, 6, 8}));
}

TEST_F(FullBatchRunTest, InterruptedAndResumedIsBitForBitTheSame) {
  ASSERT_EQ(train(kOddNet, "whole").code, ExitCode::kDone);
  for (const int64_t after : {1, 5}) {
    const std::string name = fmt::format("parts{}", after);
    const SoloResult broken = train(kOddNet, name, {}, {.interrupt_after = after});
    EXPECT_EQ(broken.code, ExitCode::kInterrupted);
    EXPECT_THAT(broken.said, HasSubstr("interrupted after step "));
    const SoloResult resumed = train(kOddNet, name, {}, {.resume = true});
    EXPECT_EQ(resumed.code, ExitCode::kDone) << resumed.said;
    EXPECT_EQ(model(name), model("whole"));
    EXPECT_EQ(state_hash(out(name) + "/checkpoints/step-00000008"),
              state_hash(out("whole") + "/checkpoints/step-00000008"));
    const auto a = rows(out("whole"), true), b = rows(out(name), true);
    ASSERT_EQ(a.size(), b.size());
    for (size_t s = 0; s < a.size(); ++s) EXPECT_EQ(a[s]["loss"], b[s]["loss"]);
  }
}

TEST_F(FullBatchRunTest, BeginsWithAGivenModel) {
  ASSERT_EQ(train(kOddNet, "first").code, ExitCode::kDone);
  ASSERT_EQ(train(kOddNet, "second", {"train.steps=1"}, {.init_model = out("first") + "/model.safetensors"}).code,
            ExitCode::kDone);
  EXPECT_LT(rows(out("second"), true)[0]["loss"], rows(out("first"), true)[0]["loss"]);
  const SoloResult nowhere = train(kOddNet, "third", {}, {.init_model = folder_.path() + "/nowhere"});
  EXPECT_NE(nowhere.code, ExitCode::kDone);
  EXPECT_THAT(nowhere.said, HasSubstr("nowhere"));
}

TEST_F(FullBatchRunTest, SaysWhatItDoesNotTake) {
  const auto error = [&](const std::vector<std::string>& set) {
    Result<RunDefinition> run = folder_.read(kOddNet, set);
    if (!run) return run.error().message;
    const Status opened = run->open_data(folder_.files);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({"train.batch=16"}), HasSubstr("all 32 samples in each step: 'batch' in [train] must be 32"));
  EXPECT_THAT(error({"train.ema=0.9"}), HasSubstr("'ema' in [train] is not for the optimizer lbfgs"));
  EXPECT_THAT(error({"schedule.type=cosine"}), HasSubstr("[schedule] is not for the optimizer lbfgs"));
  EXPECT_THAT(error({"optimizer.lr=0.1"}), HasSubstr("'lr'"));
}

}  // namespace
}  // namespace dtrain::node
