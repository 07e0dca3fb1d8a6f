#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(ConvTranspose2d, Gradient) {
  check_gradients("[2, 3, 4]", R"({ type = "conv_transpose2d", filters = 3, kernel = 3 },)");
  check_gradients("[2, 3, 3]",
                  R"({ type = "conv_transpose2d", filters = 3, kernel = [3, 2], stride = [2, 3], pad = [1, 0],)"
                  R"( output_pad = [1, 2], activation = "relu" },)");
  check_gradients("[2, 3, 3]", R"({ type = "conv_transpose2d", filters = 4, kernel = 2, dilation = 2, bias = false,)"
                               R"( activation = "tanh" },)");
}

TEST(ConvTranspose2d, Groups) {
  check_gradients("[4, 3, 3]", R"({ type = "conv_transpose2d", filters = 6, kernel = 2, stride = 2, groups = 2 },)");
  check_gradients("[3, 3, 3]", R"({ type = "conv_transpose2d", filters = 3, kernel = 3, groups = 3, pad = 1 },)");
}

TEST(ConvTranspose2d, WideAfterAConvolution) {
  check_gradients("[3, 4, 4]", R"({ type = "conv2d", filters = 32, kernel = 3, pad = 1 },
                                  { type = "conv_transpose2d", filters = 16, kernel = 4, stride = 2, pad = 1 },
                                  { type = "conv2d", filters = 2, kernel = 3 },)");
}

TEST(ConvTranspose2d, Facts) {
  const LayerFacts facts =
      layer_facts("[8, 5, 7]", R"({ type = "conv_transpose2d", filters = 6, kernel = [3, 4], stride = 2, pad = [1, 0],)"
                               R"( output_pad = [1, 0], groups = 2 })");
  EXPECT_EQ(facts.output, (Shape{6, 10, 16}));
  ASSERT_EQ(facts.parameters.size(), 2u);
  EXPECT_EQ(facts.parameters[0].name, "x.weight");
  EXPECT_EQ(facts.parameters[0].shape, (Shape{8, 3, 3, 4}));
  EXPECT_EQ(facts.parameters[1].name, "x.bias");
  EXPECT_EQ(facts.parameters[1].shape, (Shape{6}));
  EXPECT_EQ(facts.flops, 2.0 * 8 * 3 * 3 * 4 * 5 * 7);
}

TEST(ConvTranspose2d, Errors) {
  const auto error = [](const std::string& keys) {
    return layer_error("[4, 3, 3]", R"({ type = "conv_transpose2d", )" + keys + " }");
  };
  EXPECT_NE(error("filters = 4, kernel = 2, output_pad = 1").find("'output_pad' must be below the stride (1 by 1)"),
            std::string::npos);
  EXPECT_NE(error("filters = 4, kernel = 2, pad = 2").find("'pad' of 2 by 2 leaves nothing"), std::string::npos);
  EXPECT_NE(error("filters = 5, kernel = 2, groups = 2").find("'groups' = 2 must divide"), std::string::npos);
  EXPECT_NE(error("kernel = 2").find("needs 'filters'"), std::string::npos);
  EXPECT_NE(layer_error("[3, 4]", R"({ type = "conv_transpose2d", filters = 2, kernel = 2 })")
                .find("needs [channels, height, width]"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
