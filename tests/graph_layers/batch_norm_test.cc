#include <gtest/gtest.h>

#include "graph/executable.h"
#include "tests/graph/training_data.h"
#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(BatchNorm, GradientOfFeatures) { check_gradients("[5]", R"({ type = "batch_norm" },)", {.samples = 6}); }

TEST(BatchNorm, GradientOfImages) {
  check_gradients("[3, 4, 5]", R"({ type = "batch_norm" },)");
  check_gradients("[3, 4, 5]", R"({ type = "batch_norm", activation = "relu" },)");
  check_gradients("[3, 4, 5]", R"({ type = "batch_norm", activation = "tanh" },)");
}

TEST(BatchNorm, WithoutAffine) { check_gradients("[3, 4, 5]", R"({ type = "batch_norm", affine = false },)"); }

TEST(BatchNorm, RightOnTheSample) {
  check_gradients(
      "[3, 4, 4]",
      R"({ type = "batch_norm" }, { type = "flatten" }, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)",
      {.wrap = false});
}

TEST(BatchNorm, NextStatistics) {
  const NetworkText read = read_network(
      "[2]", R"({ type = "batch_norm", momentum = 0.3 }, { type = "linear", units = 2 }, { type = "mse" },)");
  ASSERT_TRUE(read.network) << read.error;
  auto executable = Executable::compile(*read.network, Mode::kTrain, 3, "reference");
  ASSERT_TRUE(executable) << executable.error().message;
  TrainingData data(*read.network, 3);
  const float x[] = {1, 10, 2, 20, 6, 60};  // means 3 and 30, unbiased variances 7 and 700
  std::copy(std::begin(x), std::end(x), data.samples().begin());
  Observer observer;
  ASSERT_TRUE((*executable)->run(data.feed(), data.binding(), data.context(), observer));
  ASSERT_EQ(read.network->parameters()[2].name, "batch_norm1.running_mean");
  EXPECT_NEAR(data.output(2)[0], 0.3 * 3, 1e-5);
  EXPECT_NEAR(data.output(2)[1], 0.3 * 30, 1e-5);
  EXPECT_NEAR(data.output(3)[0], 0.7 + 0.3 * 7, 1e-5);
  EXPECT_NEAR(data.output(3)[1], 0.7 + 0.3 * 700, 1e-4);
}

TEST(BatchNorm, Parameters) {
  const LayerFacts facts = layer_facts("[3, 4, 5]", R"({ type = "batch_norm" })");
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight", {3}},
                                                          {"x.bias", {3}},
                                                          {"x.running_mean", {3}, ParameterKind::kStatistic},
                                                          {"x.running_var", {3}, ParameterKind::kStatistic}}));
}

TEST(BatchNorm, Errors) {
  EXPECT_NE(layer_error("[3, 4]", R"({ type = "batch_norm" })").find("needs [channels] or [channels, height, width]"),
            std::string::npos);
  EXPECT_NE(layer_error("[3]", R"({ type = "batch_norm", momentum = 1.5 })").find("from 0 to 1"), std::string::npos);
  const NetworkText read =
      read_network("[2]", R"({ type = "batch_norm" }, { type = "linear", units = 2 }, { type = "mse" },)");
  const auto executable = Executable::compile(*read.network, Mode::kTrain, 1, "reference");
  ASSERT_FALSE(executable);
  EXPECT_NE(executable.error().message.find("layer 'batch_norm1' (batch_norm): a micro-batch of one sample"),
            std::string::npos);
  EXPECT_TRUE(Executable::compile(*read.network, Mode::kEval, 1, "reference"));
}

}  // namespace
}  // namespace dtrain::graph
