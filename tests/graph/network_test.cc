#include "graph/network.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "graph/layer_registry.h"
#include "tests/graph/network_text.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kEnd[] =
    R"({ name = "out", type = "linear", units = 5 }, { name = "loss", type = "softmax_cross_entropy" },)";

std::string error_of(const std::string& layers, const std::string& input = "[12]") {
  return read_network(input, layers).error;
}

TEST(Network, ParametersHavePyTorchsNamesInForwardOrder) {
  const NetworkText read = read_network(R"(
input = [3, 8, 8]
layers = [
  { name = "stem", type = "conv2d", filters = 4, kernel = 3, pad = 1, bias = false },
  { name = "stage1", type = "basic", repeat = 2, filters = 4 },
  { type = "global_avg_pool" },
  { type = "linear", units = 5 },
  { type = "softmax_cross_entropy" },
]
[network.block.basic]
args = { filters = 8 }
layers = [
  { name = "c1", type = "conv2d", filters = "$filters", kernel = 3, pad = 1, bias = false },
  { name = "b1", type = "batch_norm", activation = "relu" },
  { name = "sum", type = "add", inputs = ["b1", "input"] },
]
)");
  ASSERT_TRUE(read.network) << read.error;
  std::vector<std::string> names;
  for (const ParameterInfo& p : read.network->parameters()) names.push_back(p.name);
  EXPECT_THAT(names, ElementsAre("stem.weight", "stage1.0.c1.weight", "stage1.0.b1.weight", "stage1.0.b1.bias",
                                 "stage1.0.b1.running_mean", "stage1.0.b1.running_var", "stage1.1.c1.weight",
                                 "stage1.1.b1.weight", "stage1.1.b1.bias", "stage1.1.b1.running_mean",
                                 "stage1.1.b1.running_var", "linear1.weight", "linear1.bias"));
  EXPECT_EQ(read.network->trainable_elements(), 108 + 2 * (144 + 8) + 25);
  EXPECT_EQ(read.network->forward_flops(), 2.0 * (64 * 108 + 2 * 64 * 144 + 20));
  EXPECT_EQ(read.network->layers()[1].name, "stage1.0.c1");
  EXPECT_EQ(read.network->layers()[3].inputs, (std::vector<int>{2, 0}));
}

TEST(Network, InitialValuesAreThoseOfTheLayers) {
  const NetworkText read =
      read_network("[4]", std::string(R"({ type = "linear", units = 2 }, { type = "batch_norm" }, )") + kEnd);
  ASSERT_TRUE(read.network) << read.error;
  std::vector<float> weight(8), ones(2), again(3);
  read.network->initialize(0, 1, 0, weight);
  read.network->initialize(0, 1, 5, again);
  read.network->initialize(2, 1, 0, ones);
  EXPECT_THAT(weight, testing::Each(testing::AllOf(testing::Ge(-0.5f), testing::Lt(0.5f), testing::Ne(0.0f))));
  EXPECT_EQ(again, (std::vector<float>{weight[5], weight[6], weight[7]}));
  EXPECT_THAT(ones, ElementsAre(1.0f, 1.0f));
}

TEST(Network, UnknownTypeGetsTheNearestOfTypesAndBlocks) {
  EXPECT_EQ(error_of("{ name = \"a\", type = \"liner\", units = 3 },\n" + std::string(kEnd)),
            "net.toml:4:22: error: layer 'a': unknown type 'liner' (did you mean 'linear'?)");
  EXPECT_THAT(
      read_network(
          "input = [3]\nlayers = [{ type = \"residul\" }]\n[network.block.residual]\nlayers = [{ type = \"relu\" }]\n")
          .error,
      HasSubstr("did you mean 'residual'?"));
}

TEST(Network, OneMistakeIsToldOnce) {
  // What follows from a shape that is not known is no mistake of its own; a later independent one is.
  const std::string error = error_of(R"({ type = "conv2d", filters = 4, kernel = 3 },
{ type = "max_pool2d", kernel = 3 },
{ type = "linear", units = 4, inputs = ["input"], bais = false },
)" + std::string(kEnd));
  EXPECT_THAT(
      error,
      HasSubstr("net.toml:4:1: error: layer 'conv2d1' (conv2d): needs [channels, height, width], but its input 'input' "
                "(the sample) of shape [12] has 1 axis"));
  EXPECT_THAT(error,
              HasSubstr("net.toml:6:51: error: unknown key 'bais' in layer 'linear1' (linear) (did you mean 'bias'?)"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

TEST(Network, KeysBelowALayerInErrorAreReadAllTheSame) {
  const std::string error = read_network("[1, 28, 28]", R"(
    { name = "a", type = "conv2d", filters = "six", kernel = 5 },
    { name = "b", type = "max_pool2d", kernle = 2, kernel = 2 },
    { name = "c", type = "flatten" },
    { name = "d", type = "dropout", rate = 1.4 },
    { name = "e", type = "linear", units = 10 },
    { type = "softmax_cross_entropy" },
  )")
                                .error;
  EXPECT_THAT(error, HasSubstr("'filters'"));
  EXPECT_THAT(error, HasSubstr("'kernle'"));
  EXPECT_THAT(error, HasSubstr("'rate' must be"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2) << error;
}

TEST(Network, EndsWithItsOnlyLoss) {
  const std::string none = error_of(R"({ name = "out", type = "linear", units = 5 },)");
  EXPECT_THAT(none, HasSubstr("the last layer 'out' (linear) is no loss: end the network with one of "));
  for (const char* loss : {"mse", "softmax_cross_entropy"}) EXPECT_THAT(none, HasSubstr(loss));
  EXPECT_THAT(
      error_of(
          R"({ name = "out", type = "linear", units = 5 }, { name = "first", type = "mse" }, { type = "mse", inputs = ["out"] },)"),
      HasSubstr("layer 'first' (mse) is a loss, but not the last layer"));
  EXPECT_THAT(
      error_of(R"({ name = "out", type = "linear", units = 5 }, { name = "first", type = "mse" }, { type = "relu" },)"),
      HasSubstr("reads the loss 'first'"));
}

TEST(Network, NamesWhatDoesNotReachTheLoss) {
  const std::string error = error_of(R"({ name = "lost", type = "linear", units = 3 },
{ name = "too", type = "relu" },
{ name = "out", type = "linear", units = 5, inputs = ["input"] },
{ name = "loss", type = "softmax_cross_entropy" },)");
  EXPECT_THAT(
      error,
      HasSubstr("net.toml:4:1: error: layer 'lost' (linear) does not reach the loss 'loss': nothing reads it, so its "
                "parameters would never be trained"));
  EXPECT_THAT(error, HasSubstr("net.toml:5:1: error: layer 'too' (relu) does not reach the loss"));
}

TEST(Network, NeedsSomethingToTrain) {
  EXPECT_THAT(error_of(R"({ type = "relu" }, { type = "mse" },)"), HasSubstr("no parameters to train"));
}

TEST(Network, BoundsWhatAKeyCanAskFor) {
  EXPECT_THAT(
      error_of(R"({ type = "linear", units = 16777216 }, { type = "linear", units = 16777216 }, )" + std::string(kEnd)),
      HasSubstr("its weight of shape [16777216, 16777216] is larger than 2^40 elements"));
  EXPECT_THAT(error_of(R"({ type = "linear", units = 99999999999 }, )" + std::string(kEnd)),
              HasSubstr("from 1 to 16777216"));
}

TEST(Network, ErrorsOfTheSpecComeFirst) {
  config::Diagnostics diagnostics;
  diagnostics.error({}, "before");
  EXPECT_FALSE(Network::build({.input = {3}, .layers = {}, .blocks = {}}, diagnostics));
  EXPECT_EQ(diagnostics.errors().size(), 1u);
}

TEST(LayerRegistry, KnowsEveryTypeByName) {
  for (const std::string& type : LayerRegistry::instance().types())
    EXPECT_TRUE(LayerRegistry::instance().make(type)) << type;
  EXPECT_FALSE(LayerRegistry::instance().make("nonesuch"));
}

}  // namespace
}  // namespace dtrain::graph
