#include "node/synthetic_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "node/fixed_feed.h"
#include "node/solo_run.h"
#include "tests/node/solo.h"

namespace dtrain::node {
namespace {

constexpr uint64_t kSeed = 3;
// Larger networks are only fed: a step of them takes gigabytes, and is no other kind of step.
constexpr int64_t kMostElements = 20'000'000;

RunDefinition read(const std::string& file) {
  Result<RunDefinition> run =
      RunDefinition::read(file, std::vector<std::string>{"train.threads=1", "train.batch=2"}, RealFileSystem());
  EXPECT_TRUE(run) << (run ? "" : run.error().message);
  run->train = synthetic_data(*run->network, int64_t{1} << 40, kSeed);
  run->shuffle = false;
  run->data_digest = run->train->digest();
  return std::move(*run);
}

// One sample with its label, whatever they are made of.
struct Sample {
  std::vector<float> values, targets;
  std::vector<int32_t> tokens, classes;

  bool operator==(const Sample&) const = default;
};

Sample sample(const data::Dataset& data, int64_t index) {
  Sample s;
  const auto elements = static_cast<size_t>(data.sample_shape().elements());
  const auto labels = static_cast<size_t>(data.labels().shape.elements());
  if (data.sample_dtype() == DType::kI32)
    s.tokens.assign(elements, -1);
  else
    s.values.assign(elements, NAN);
  if (data.labels().kind == data::LabelKind::kValues)
    s.targets.assign(labels, NAN);
  else
    s.classes.assign(labels, -1);
  const Status read = data.read({.index = index}, {s.values, s.tokens}, {s.classes, s.targets});
  EXPECT_TRUE(read) << read.error().message;
  return s;
}

// What the network may be fed: the shapes are its own, tokens and classes those that it knows, all numbers finite.
void expect_fits(const graph::Network& network, const data::Dataset& data, int64_t index) {
  ASSERT_EQ(data.sample_shape(), network.input());
  ASSERT_EQ(data.sample_dtype(), network.input_dtype());
  const graph::LabelSpec& wanted = network.labels();
  ASSERT_EQ(data.labels().dtype(), wanted.dtype());
  ASSERT_EQ(data.labels().shape, wanted.shape);
  const Sample s = sample(data, index);
  for (const float value : s.values) ASSERT_TRUE(std::isfinite(value));
  for (const int32_t token : s.tokens) ASSERT_TRUE(token >= 0 && token < network.input_classes()) << token;
  for (const graph::TableLookup& lookup : network.lookups()) {
    const int64_t rows = network.parameters()[static_cast<size_t>(lookup.table)].shape[0];
    for (const int32_t place : lookup.places) {
      const auto at = static_cast<size_t>(place);
      const auto row = s.tokens.empty() ? static_cast<double>(s.values.at(at)) : s.tokens.at(at);
      ASSERT_TRUE(row >= 0 && row < static_cast<double>(rows) && row == std::floor(row)) << row << " of " << rows;
    }
  }
  for (const int32_t label : s.classes) ASSERT_TRUE(label >= 0 && label < wanted.classes) << label;
  if (wanted.kind == graph::LabelSpec::Kind::kClasses) {
    ASSERT_LT(data.max_label(), wanted.classes);
  }
  for (const float target : s.targets) {
    ASSERT_TRUE(std::isfinite(target));
    if (network.prediction().kind == graph::Prediction::Kind::kSigmoid) {
      ASSERT_TRUE(target == 0 || target == 1);
    }
  }
}

// Of a run that leaves nothing behind.
class Losses final : public cluster::CoordinatorEvents {
 public:
  void on_begin(int64_t, uint32_t) override {}
  void on_step(const cluster::StepReport& report) override { losses.push_back(report.metrics.mean_loss()); }
  void on_eval(int64_t, const Metrics&) override {}
  Status on_snapshot_complete(int64_t, const std::vector<wire::SnapshotDone>&) override { return {}; }
  void on_snapshot_abandoned(int64_t, const std::string&) override {}
  void on_stopped(ExitCode, const std::string&) override {}

  std::vector<double> losses;
};

std::vector<double> train_one_step(RunDefinition& run) {
  run.spec.train.micro_batch = 2;
  run.spec.train.checkpoint_every = 0;
  StartPlan plan;
  plan.steps = 1;
  plan.micro_batches = 1;
  plan.threads = 1;
  Losses events;
  TaskSetup setup;
  setup.coordinator = coordinator_options(run, plan, "");
  setup.events = &events;
  setup.threads = 1;
  RealFileSystem files;
  RememberingLog log;
  const std::atomic<int> interrupts = 0;
  EXPECT_EQ(run_solo(run, std::move(setup), files, SteadyClock(), log, interrupts), ExitCode::kDone) << log.text();
  return events.losses;
}

void expect_step(RunDefinition& run) {
  const std::vector<double> losses = train_one_step(run);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_TRUE(std::isfinite(losses[0])) << losses[0];
  EXPECT_GT(losses[0], 0);
}

// Every run file that dtrain comes with.
std::vector<std::string> run_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(DTRAIN_SOURCE_DIR "/configs"))
    if (entry.path().extension() == ".toml" && entry.path().stem() != "cluster-example")
      files.push_back(entry.path().stem().string());
  std::sort(files.begin(), files.end());
  return files;
}

class ShippedRunTest : public testing::TestWithParam<std::string> {};

TEST_P(ShippedRunTest, IsFedAndStepsWithoutItsData) {
  RunDefinition run = read(DTRAIN_SOURCE_DIR "/configs/" + GetParam() + ".toml");
  for (const int64_t index : {int64_t{0}, int64_t{1}, (int64_t{1} << 40) - 1})
    expect_fits(*run.network, *run.train, index);
  if (HasFatalFailure() || run.network->trainable_elements() > kMostElements) return;
  expect_step(run);
}

INSTANTIATE_TEST_SUITE_P(SyntheticData, ShippedRunTest, testing::ValuesIn(run_files()), [](const auto& name) {
  std::string word = name.param;
  std::replace_if(
      word.begin(), word.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return word;
});

// The kinds of loss, and what samples are made of, that those may be without.
struct Kind {
  const char *name, *network;
};

class KindTest : public testing::TestWithParam<Kind> {
 protected:
  RunDefinition run() {
    return read(folder_.write("run.toml", std::string(R"(
name = "kind"
[data.train]
format = "synthetic"
samples = 4
[train]
batch = 2
steps = 1
[optimizer]
type = "sgd"
lr = 0.1
[network]
)") + GetParam().network));
  }
  RunFolder folder_;
};

TEST_P(KindTest, IsFedAndSteps) {
  RunDefinition run = this->run();
  for (int64_t index = 0; index < 100; ++index) expect_fits(*run.network, *run.train, index);
  if (!HasFatalFailure()) expect_step(run);
}

TEST_P(KindTest, ASampleIsAFunctionOfSeedAndIndex) {
  const RunDefinition run = this->run();
  const auto again = synthetic_data(*run.network, int64_t{1} << 40, kSeed),
             other = synthetic_data(*run.network, int64_t{1} << 40, kSeed + 1);
  const Sample first = sample(*run.train, 0);
  EXPECT_EQ(sample(*again, 0), first);
  EXPECT_NE(sample(*run.train, 1), first);
  EXPECT_NE(sample(*run.train, int64_t{1} << 32), first) << "all of the index counts";
  EXPECT_NE(sample(*other, 0), first);
  EXPECT_EQ(again->digest(), run.train->digest());
  EXPECT_NE(other->digest(), run.train->digest());
}

// Labels that were all the same would fit too.
TEST_P(KindTest, LabelsDiffer) {
  const RunDefinition run = this->run();
  std::vector<double> seen;
  for (int64_t index = 0; index < 200; ++index) {
    const Sample s = sample(*run.train, index);
    seen.insert(seen.end(), s.classes.begin(), s.classes.end());
    seen.insert(seen.end(), s.targets.begin(), s.targets.end());
  }
  std::sort(seen.begin(), seen.end());
  const auto kinds = static_cast<int64_t>(std::unique(seen.begin(), seen.end()) - seen.begin());
  const graph::LabelSpec& wanted = run.network->labels();
  if (wanted.kind == graph::LabelSpec::Kind::kClasses)
    EXPECT_EQ(kinds, wanted.classes);
  else if (run.network->prediction().kind == graph::Prediction::Kind::kSigmoid)
    EXPECT_EQ(kinds, 2);
  else
    EXPECT_GT(kinds, 190);
}

const Kind kKinds[] = {
    {"Classes", R"(
input = [4]
layers = [{ type = "linear", units = 3 }, { type = "softmax_cross_entropy" }])"},
    {"ClassesOfPixels", R"(
input = [2, 5, 5]
layers = [{ type = "conv2d", filters = 3, kernel = 3, pad = 1 }, { type = "softmax_cross_entropy" }])"},
    {"Sigmoid", R"(
input = [4]
layers = [{ type = "linear", units = 1 }, { type = "sigmoid_cross_entropy" }])"},
    {"SeveralSigmoids", R"(
input = [4]
layers = [{ type = "linear", units = 3 }, { type = "sigmoid_cross_entropy" }])"},
    {"Regression", R"(
input = [4]
layers = [{ type = "linear", units = 2 }, { type = "mse" }])"},
    {"Huber", R"(
input = [4]
layers = [{ type = "linear", units = 1 }, { type = "huber" }])"},
    {"TokensOfATable", R"(
input = [6]
layers = [{ type = "embedding", vocab = 11, dim = 4 }, { type = "flatten" }, { type = "linear", units = 3 },
          { type = "softmax_cross_entropy" }])"},
    {"TokensBesideNumbers", R"(
input = [3]
layers = [{ name = "numbers", type = "slice", end = 2 },
          { type = "slice", inputs = ["input"], begin = 2 },
          { type = "embedding", vocab = 5, dim = 4 }, { name = "row", type = "flatten" },
          { type = "concat", inputs = ["numbers", "row"] }, { type = "linear", units = 3 },
          { type = "softmax_cross_entropy" }])"},
    {"TokensOfASparseTable", R"(
input = [6]
layers = [{ type = "embedding", vocab = 11, dim = 4, sparse = true }, { type = "flatten" },
          { type = "linear", units = 3 }, { type = "softmax_cross_entropy" }])"},
};
INSTANTIATE_TEST_SUITE_P(SyntheticData, KindTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace dtrain::node
