#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(GroupNorm, Gradient) {
  check_gradients("[6, 3, 4]", R"({ type = "group_norm", groups = 3 },)");
  check_gradients("[6, 3, 4]", R"({ type = "group_norm", groups = 2, epsilon = 0.1, activation = "relu" },)");
  check_gradients("[4, 5]", R"({ type = "group_norm", groups = 2 },)");
  check_gradients("[6]", R"({ type = "group_norm", groups = 2 },)");
}

TEST(GroupNorm, OneGroupAndOneChannelAGroup) {
  check_gradients("[6, 3, 4]", R"({ type = "group_norm", groups = 1 },)");
  check_gradients("[6, 3, 4]", R"({ type = "group_norm", groups = 6 },)");
}

TEST(GroupNorm, WithoutAffine) {
  check_gradients("[6, 3, 4]", R"({ type = "group_norm", groups = 3, affine = false },)");
}

TEST(GroupNorm, BetweenConvolutions) {
  check_gradients("[3, 5, 5]", R"({ type = "conv2d", filters = 32, kernel = 3 },
                                  { type = "group_norm", groups = 4, activation = "silu" },
                                  { type = "conv2d", filters = 4, kernel = 3 },)");
}

TEST(GroupNorm, RightOnTheSample) {
  check_gradients(
      "[4, 3, 3]",
      R"({ type = "group_norm", groups = 2 }, { type = "flatten" }, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)",
      {.wrap = false});
}

TEST(GroupNorm, Parameters) {
  EXPECT_EQ(layer_facts("[6, 4, 5]", R"({ type = "group_norm", groups = 2 })").parameters,
            (std::vector<ParameterInfo>{{"x.weight", {6}}, {"x.bias", {6}}}));
  const LayerFacts bare = layer_facts("[6, 4, 5]", R"({ type = "group_norm", groups = 2, affine = false })");
  EXPECT_TRUE(bare.parameters.empty());
  EXPECT_EQ(bare.output, (Shape{6, 4, 5}));
}

TEST(GroupNorm, Errors) {
  EXPECT_NE(layer_error("[6, 4, 4]", R"({ type = "group_norm", groups = 4 })")
                .find("layer 'x' (group_norm): 'groups' = 4 must divide the 6 channels of its input 'input'"),
            std::string::npos);
  EXPECT_NE(layer_error("[6]", R"({ type = "group_norm" })").find("'groups'"), std::string::npos);
  EXPECT_NE(
      layer_error("[6]", R"({ type = "group_norm", groups = 0 })").find("'groups' in layer 'x' (group_norm) must"),
      std::string::npos);
  EXPECT_NE(layer_error("[6]", R"({ type = "group_norm", groups = 2, epsilon = -1 })")
                .find("'epsilon' in layer 'x' (group_norm) must be above 0"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
