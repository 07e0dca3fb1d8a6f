#include "graph/executable.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/graph/allocation_count.h"
#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;

constexpr char kConvolutional[] = R"({ name = "c", type = "conv2d", filters = 16, kernel = 3, pad = 1 },
  { name = "b", type = "batch_norm", activation = "relu" }, { type = "max_pool2d", kernel = 2 }, { type = "flatten" },
  { type = "dropout" }, { name = "f", type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)";

class Recorder : public Observer {
 public:
  explicit Recorder(const Network& network) : network_(network) {}
  Status need_parameter(ParameterIndex p) override {
    events.push_back("need " + name(p));
    if (p == fail_at) return fail(ExitCode::kPeerLost, "gone");
    return {};
  }
  void ready(const ParameterOutput& out) override {
    events.push_back("ready " + name(out.parameter));
    outputs.push_back({out, {out.values, out.values + out.elements}});
  }
  void metrics_ready() override { events.push_back("loss"); }

  struct Output {
    ParameterOutput what;
    std::vector<float> values;
  };
  std::vector<std::string> events;
  std::vector<Output> outputs;
  ParameterIndex fail_at = -1;

 private:
  const std::string& name(ParameterIndex p) const { return network_.parameters()[static_cast<size_t>(p)].name; }
  const Network& network_;
};

class ExecutableTest : public testing::TestWithParam<const char*> {
 protected:
  void compile(const std::string& input, const std::string& layers, Mode mode, int64_t n) {
    NetworkText read = read_network(input, layers);
    ASSERT_TRUE(read.network) << read.error;
    network_ = std::make_unique<Network>(std::move(*read.network));
    auto executable = Executable::compile(*network_, mode, n, GetParam());
    ASSERT_TRUE(executable) << executable.error().message;
    executable_ = std::move(*executable);
    data_ = std::make_unique<TrainingData>(*network_, n);
  }
  Status run(Observer& observer) {
    return executable_->run(data_->feed(), data_->binding(), data_->context(), observer);
  }

  std::unique_ptr<Network> network_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<TrainingData> data_;
};

TEST_P(ExecutableTest, NeedsInForwardOrderAndIsReadyInBackwardOrder) {
  compile(
      "[5]",
      R"({ name = "a", type = "linear", units = 4, activation = "relu" }, { name = "b", type = "linear", units = 3 }, { type = "mse" },)",
      Mode::kTrain, 4);
  Recorder recorder(*network_);
  ASSERT_TRUE(run(recorder));
  // The gradient of a's output comes first: after it nobody reads b's weight, which may change with its gradient.
  EXPECT_THAT(recorder.events, ElementsAre("need a.weight", "need a.bias", "need b.weight", "need b.bias", "loss",
                                           "ready b.weight", "ready b.bias", "ready a.weight", "ready a.bias"));
}

// A weight of three blocks, whose rows do not end where blocks do.
constexpr char kWide[] = R"({ name = "a", type = "linear", units = 700 }, { name = "b", type = "linear", units = 2 },
  { type = "mse" },)";

TEST_P(ExecutableTest, ALargeGradientComesInBlocks) {
  compile("[1001]", kWide, Mode::kTrain, 3);
  Recorder recorder(*network_);
  ASSERT_TRUE(run(recorder));
  constexpr int64_t kBlock = kChunkElements * kBlockChunks;
  int64_t next = 0;
  for (const Recorder::Output& out : recorder.outputs) {
    if (out.what.parameter != 0) continue;
    EXPECT_EQ(out.what.first, next);
    EXPECT_TRUE(out.what.elements == kBlock || out.what.first + out.what.elements == 700 * 1001);
    EXPECT_EQ(out.what.values, data_->output(0).data() + out.what.first);
    next += out.what.elements;
  }
  EXPECT_EQ(next, 700 * 1001);
  // dw = dyᵀ·x, whose dy is that of a's bias where there is one sample.
  compile("[1001]", kWide, Mode::kTrain, 1);
  Observer nobody;
  ASSERT_TRUE(run(nobody));
  const std::span<const float> dw = data_->output(0), dy = data_->output(1), x = data_->samples();
  for (size_t o = 0; o < 700; ++o)
    for (size_t i = 0; i < 1001; ++i)
      ASSERT_NEAR(dw[o * 1001 + i], dy[o] * x[i], 1e-5f * (1 + std::abs(dw[o * 1001 + i]))) << o << " " << i;
}

TEST_P(ExecutableTest, GradientsOfItsOwnAreTheSame) {
  for (const auto& [input, layers] : {std::pair{"[3, 6, 6]", kConvolutional}, {"[1001]", kWide}}) {
    compile(input, layers, Mode::kTrain, 4);
    Recorder bound(*network_);
    ASSERT_TRUE(run(bound));
    auto own = Executable::compile(*network_, Mode::kTrain, 4, GetParam(), {.own_gradients = true});
    ASSERT_TRUE(own);
    EXPECT_LE((*own)->arena_bytes(), executable_->arena_bytes() + network_->trainable_elements() * sizeof(float));
    Binding binding = data_->binding();
    std::vector<float*> outputs(binding.outputs.begin(), binding.outputs.end());
    for (size_t p = 0; p < outputs.size(); ++p)
      if (network_->parameters()[p].kind == ParameterKind::kTrainable) outputs[p] = nullptr;
    binding.outputs = outputs;
    Recorder recorder(*network_);
    ASSERT_TRUE((*own)->run(data_->feed(), binding, data_->context(), recorder));
    EXPECT_EQ(recorder.events, bound.events);
    ASSERT_EQ(recorder.outputs.size(), bound.outputs.size());
    for (size_t i = 0; i < recorder.outputs.size(); ++i) {
      EXPECT_EQ(recorder.outputs[i].what.first, bound.outputs[i].what.first);
      EXPECT_EQ(recorder.outputs[i].values, bound.outputs[i].values) << i;
    }
  }
}

TEST_P(ExecutableTest, ARehearsalTellsWhatARunDoes) {
  struct Diary final : Observer {
    std::vector<std::vector<int64_t>> lines;
    Status need_parameter(ParameterIndex p) override { return lines.push_back({0, p}), Status(); }
    void ready(const ParameterOutput& out) override { lines.push_back({1, out.parameter, out.first, out.elements}); }
    void metrics_ready() override { lines.push_back({2}); }
    void computed(int op) override { lines.push_back({3, op}); }
    Status step_done(int op) override { return lines.push_back({4, op}), Status(); }
  };
  for (const auto& [input, layers] : {std::pair{"[3, 6, 6]", kConvolutional}, {"[1001]", kWide}}) {
    compile(input, layers, Mode::kTrain, 4);
    Diary rehearsal, performance;
    ASSERT_TRUE(executable_->rehearse(rehearsal));
    ASSERT_TRUE(run(performance));
    EXPECT_EQ(rehearsal.lines, performance.lines);
  }
}

TEST_P(ExecutableTest, StatisticsAreReadyInForward) {
  compile("[3, 6, 6]", kConvolutional, Mode::kTrain, 4);
  Recorder recorder(*network_);
  ASSERT_TRUE(run(recorder));
  const auto at = [&](const std::string& event) {
    const auto i = std::find(recorder.events.begin(), recorder.events.end(), event);
    EXPECT_NE(i, recorder.events.end()) << event;
    return i - recorder.events.begin();
  };
  EXPECT_LT(at("ready b.running_mean"), at("loss"));
  EXPECT_LT(at("ready f.weight"), at("ready b.weight"));
  EXPECT_EQ(std::count_if(recorder.events.begin(), recorder.events.end(),
                          [](const std::string& e) { return e.starts_with("ready"); }),
            static_cast<int64_t>(network_->parameters().size()));
}

TEST_P(ExecutableTest, PredictsWhatTheLossReads) {
  for (const char* layers :
       {kConvolutional,
        R"({ type = "flatten" }, { name = "f", type = "linear", units = 3 }, { type = "softmax_cross_entropy" },)"}) {
    compile("[3, 6, 6]", layers, Mode::kEval, 4);
    Observer observer;
    ASSERT_TRUE(run(observer));
    const double loss = data_->mean_loss();
    compile("[3, 6, 6]", layers, Mode::kPredict, 4);
    const auto classes = static_cast<size_t>(network_->output().elements());
    Buffer logits(4 * classes * sizeof(float));
    Binding binding = data_->binding();
    binding.metrics = nullptr;
    binding.prediction = logits.as<float>().data();
    ASSERT_TRUE(executable_->run({data_->feed().samples, nullptr}, binding, data_->context(), observer));
    EXPECT_EQ(network_->prediction().kind, Prediction::Kind::kSoftmax);
    const auto labels = static_cast<const int32_t*>(data_->feed().labels);
    double sum = 0;
    for (size_t i = 0; i < 4; ++i) {
      double total = 0;
      for (size_t c = 0; c < classes; ++c) total += std::exp(double{logits.as<float>()[i * classes + c]});
      sum += std::log(total) - double{logits.as<float>()[i * classes + static_cast<size_t>(labels[i])]};
    }
    EXPECT_NEAR(sum / 4, loss, 1e-5);
  }
}

TEST_P(ExecutableTest, AnErrorOfTheObserverEndsTheRun) {
  compile("[3, 6, 6]", kConvolutional, Mode::kTrain, 4);
  Recorder recorder(*network_);
  recorder.fail_at = 2;
  const Status status = run(recorder);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "gone");
  EXPECT_THAT(recorder.events.back(), "need b.weight");
  recorder.fail_at = -1;
  EXPECT_TRUE(run(recorder));
}

TEST_P(ExecutableTest, EvaluationGivesMetricsOnly) {
  compile("[3, 6, 6]", kConvolutional, Mode::kEval, 4);
  Recorder recorder(*network_);
  Binding binding = data_->binding();
  binding.outputs = {};
  ops::RunContext context = data_->context();
  context.valid = 3;
  ASSERT_TRUE(executable_->run(data_->feed(), binding, context, recorder));
  EXPECT_EQ(recorder.events.back(), "loss");
  EXPECT_EQ(binding.metrics->samples, 3);
}

// The same numbers whatever ran before: neither the arena's old content nor a kept copy shows.
TEST_P(ExecutableTest, ARunDependsOnItsArgumentsOnly) {
  compile("[3, 6, 6]", kConvolutional, Mode::kTrain, 4);
  Observer nobody;
  ASSERT_TRUE(run(nobody));
  const double loss = data_->mean_loss();
  const std::vector<float> gradient(data_->output(0).begin(), data_->output(0).end());
  std::vector<float> kept(data_->parameter(0).begin(), data_->parameter(0).end());
  for (float& w : data_->parameter(0)) w *= 3;
  executable_->parameter_changed(0);
  ASSERT_TRUE(run(nobody));
  EXPECT_NE(data_->mean_loss(), loss);
  std::copy(kept.begin(), kept.end(), data_->parameter(0).begin());
  executable_->parameter_changed(0);
  ASSERT_TRUE(run(nobody));
  EXPECT_EQ(data_->mean_loss(), loss);
  EXPECT_TRUE(std::equal(gradient.begin(), gradient.end(), data_->output(0).begin()));
}

TEST_P(ExecutableTest, FollowsTheCallersPointers) {
  compile("[3, 6, 6]", kConvolutional, Mode::kTrain, 4);
  Observer nobody;
  ASSERT_TRUE(run(nobody));
  TrainingData other(*network_, 4, 77);
  for (size_t p = 0; p < network_->parameters().size(); ++p)
    executable_->parameter_changed(static_cast<ParameterIndex>(p));
  ASSERT_TRUE(executable_->run(other.feed(), other.binding(), other.context(), nobody));
  auto fresh = Executable::compile(*network_, Mode::kTrain, 4, GetParam());
  TrainingData again(*network_, 4, 77);
  ASSERT_TRUE((*fresh)->run(again.feed(), again.binding(), again.context(), nobody));
  EXPECT_EQ(other.mean_loss(), again.mean_loss());
  for (size_t p = 0; p < network_->parameters().size(); ++p)
    EXPECT_TRUE(std::equal(other.output(p).begin(), other.output(p).end(), again.output(p).begin())) << p;
}

TEST_P(ExecutableTest, AllocatesNothingAfterTheFirstRun) {
  compile("[12]", R"({ type = "linear", units = 16 }, { type = "batch_norm" }, { type = "dropout" },
                     { type = "linear", units = 4, activation = "relu" }, { type = "softmax_cross_entropy" },)",
          Mode::kTrain, 4);
  Observer nobody;
  ASSERT_TRUE(run(nobody));
  const int64_t before = allocation_count();
  executable_->parameter_changed(0);
  ASSERT_TRUE(run(nobody));
  const int64_t during = allocation_count() - before;
  // Libraries under the cpu backend's kernels may allocate; the executor and the reference must not.
  if (std::string(GetParam()) == "reference") {
    EXPECT_EQ(during, 0);
  }
}

// Of what is not oneDNN's: the executor, and every kernel of dtrain's own, in training.
class CpuExecutableTest : public ExecutableTest {};

TEST_P(CpuExecutableTest, OwnKernelsAllocateNothing) {
  compile("[4, 8, 8]", R"({ name = "b", type = "batch_norm", activation = "relu" },
    { type = "group_norm", groups = 2 }, { type = "lrn", size = 3 }, { name = "m", type = "max_pool2d", kernel = 2 },
    { name = "n", type = "batch_norm" }, { type = "add", inputs = ["m", "n"], activation = "relu" },
    { type = "upsample", scale = 2 }, { type = "avg_pool2d", kernel = 2, ceil = true, pad = 1 },
    { type = "slice", axis = 1, end = 2 }, { type = "transpose", order = [1, 3, 2] }, { name = "f", type = "flatten" },
    { name = "l", type = "layer_norm" }, { name = "s", type = "softmax" }, { type = "mul", inputs = ["l", "s"] },
    { type = "dropout" }, { type = "concat", inputs = ["l", "dropout1"] }, { type = "mse" },)",
          Mode::kTrain, 3);
  Observer nobody;
  ASSERT_TRUE(run(nobody));
  const int64_t before = allocation_count();
  executable_->parameter_changed(0);
  ASSERT_TRUE(run(nobody));
  int64_t by_onednn = 0;
  for (const PlanStep& step : executable_->steps()) {
    const std::string implementation = step.kernel->implementation();
    if (implementation != "own" && implementation != "copy") by_onednn += 1;
  }
  constexpr int64_t kMostOfOneCall = 8;  // measured: 6 to 7
  EXPECT_LE(allocation_count() - before, by_onednn * kMostOfOneCall);
  EXPECT_LE(by_onednn, 8) << "of " << executable_->steps().size();
}

TEST_P(ExecutableTest, ReusesMemory) {
  std::string layers;
  for (int i = 0; i < 8; ++i) layers += R"({ type = "linear", units = 256 }, )";
  compile("[256]", layers + R"({ type = "mse" },)", Mode::kEval, 64);
  EXPECT_LE(executable_->arena_bytes(), 5u * 64 * 256 * 4);  // two, and what the kernels use as scratch
  compile("[256]", layers + R"({ type = "mse" },)", Mode::kTrain, 64);
  // Training keeps each activation, but only two gradients at once.
  EXPECT_LE(executable_->arena_bytes(), 13u * 64 * 256 * 4);
  EXPECT_GE(executable_->arena_bytes(), 8u * 64 * 256 * 4);
}

INSTANTIATE_TEST_SUITE_P(Backends, CpuExecutableTest, testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Backends, ExecutableTest, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dtrain::graph
