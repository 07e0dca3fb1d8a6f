#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Conv2d, Gradient) { check_gradients("[3, 6, 5]", R"({ type = "conv2d", filters = 4, kernel = 3 },)"); }

TEST(Conv2d, StridePadDilationGroups) {
  check_gradients("[4, 7, 8]", R"({ type = "conv2d", filters = 8, kernel = [3, 2], stride = 2, pad = [1, 0] },
                                  { type = "conv2d", filters = 8, kernel = 3, dilation = 2, pad = 2, groups = 4 },)");
}

TEST(Conv2d, WithoutBiasAndFusedActivation) {
  check_gradients("[3, 5, 5]", R"({ type = "conv2d", filters = 4, kernel = 3, bias = false, activation = "relu" },)");
  check_gradients("[3, 5, 5]", R"({ type = "conv2d", filters = 4, kernel = 3, activation = "gelu" },)");
}

TEST(Conv2d, ShapesParametersAndFlops) {
  const LayerFacts facts = layer_facts(
      "[4, 11, 10]", R"({ type = "conv2d", filters = 8, kernel = [3, 2], stride = 2, pad = [1, 0], groups = 2 })");
  EXPECT_EQ(facts.output, (Shape{8, 6, 5}));
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight", {8, 2, 3, 2}}, {"x.bias", {8}}}));
  EXPECT_EQ(facts.flops, 2.0 * 8 * 6 * 5 * 2 * 3 * 2);
  EXPECT_EQ(
      layer_facts("[1, 9, 9]", R"({ type = "conv2d", filters = 2, kernel = [5, 3], dilation = [1, 2], pad = "same" })")
          .output,
      (Shape{2, 9, 9}));
}

TEST(Conv2d, Errors) {
  EXPECT_EQ(
      layer_error("[3, 4, 4]", R"({ type = "conv2d", filters = 4, kernel = 5 })"),
      "net.toml:4:54: error: layer 'x' (conv2d): a kernel of 5 by 5 is larger than its input 'input' (the sample) of "
      "shape [3, 4, 4]");
  EXPECT_NE(layer_error("[3, 4, 4]", R"({ type = "conv2d", filters = 4, kernel = 1, groups = 2 })")
                .find("'groups' = 2 must divide"),
            std::string::npos);
  EXPECT_NE(
      layer_error("[12]", R"({ type = "conv2d", filters = 4, kernel = 1 })").find("needs [channels, height, width]"),
      std::string::npos);
  EXPECT_NE(layer_error("[3, 4, 4]", R"({ type = "conv2d", filter = 4, kernel = 1 })").find("did you mean 'filters'?"),
            std::string::npos);
  EXPECT_NE(layer_error("[3, 4, 4]", R"({ type = "conv2d", filters = 4, kernel = 1, stride = 0 })").find("from 1 to"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
