#include <fmt/format.h>
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

TEST(BatchNorm, ASumWithTheSample) {
  for (const char* activation : {"none", "relu", "tanh"})
    check_gradients("[3, 4, 4]",
                    fmt::format(R"({{ name = "a", type = "conv2d", filters = 3, kernel = 1 }},
      {{ name = "b", type = "batch_norm" }}, {{ type = "add", inputs = ["input", "b"], activation = "{}" }},
      {{ type = "flatten" }}, {{ type = "linear", units = 2 }}, {{ type = "softmax_cross_entropy" }},)",
                                activation),
                    {.wrap = false});
}

TEST(BatchNorm, ASumWithFrozenLayers) {
  constexpr char kFrozen[] = "params = { weight = { frozen = true }, bias = { frozen = true } }";
  constexpr char kRest[] =
      R"({ type = "flatten" }, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)";
  // What is added is frozen; the norm is, and what is added is trained; the norm's own parameters are.
  for (const auto& [below, norm] : {std::pair{kFrozen, ""}, {"bias = true", kFrozen}})
    for (const char* inputs : {R"("f", "b")", R"("b", "f")"})
      check_gradients("[2, 4, 4]",
                      fmt::format(R"({{ name = "f", type = "conv2d", filters = 3, kernel = 1, {} }},
        {{ name = "c", type = "conv2d", filters = 3, kernel = 1, inputs = ["input"] }},
        {{ name = "b", type = "batch_norm"{}{} }}, {{ type = "add", inputs = [{}], activation = "relu" }}, {})",
                                  below, *norm ? ", " : "", norm, inputs, kRest),
                      {.wrap = false});
  // Nothing is trained up to the norm: the sum has a gradient, the norm has none.
  check_gradients("[2, 4, 4]",
                  fmt::format(R"({{ name = "t", type = "conv2d", filters = 3, kernel = 1 }},
    {{ name = "f", type = "conv2d", filters = 3, kernel = 1, inputs = ["input"], {0} }},
    {{ name = "b", type = "batch_norm", {0} }}, {{ type = "add", inputs = ["t", "b"], activation = "relu" }}, {1})",
                              kFrozen, kRest),
                  {.wrap = false});
}

// As many as the kernel adds up itself, and one more.
TEST(BatchNorm, ManyReaders) {
  for (const int readers : {8, 9})
    for (const char* affine : {"true", "false"}) {
      std::string layers =
          fmt::format(R"({{ name = "b", type = "batch_norm", affine = {}, activation = "relu" }}, )", affine);
      std::string names;
      for (int i = 0; i < readers; ++i) {
        layers += fmt::format(R"({{ name = "r{}", type = "linear", units = 3, inputs = ["b"] }}, )", i);
        names += fmt::format(R"({}"r{}")", i ? ", " : "", i);
      }
      check_gradients("[5]", layers + fmt::format(R"({{ type = "add", inputs = [{}] }},)", names), {.samples = 6});
    }
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
