#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Attention, Gradient) { check_gradients("[4, 6]", R"({ type = "attention", heads = 2 },)"); }

TEST(Attention, Causal) { check_gradients("[5, 6]", R"({ type = "attention", heads = 3, causal = true },)"); }

TEST(Attention, OneHead) { check_gradients("[3, 5]", R"({ type = "attention", heads = 1, activation = "tanh" },)"); }

TEST(Attention, OnePosition) { check_gradients("[1, 4]", R"({ type = "attention", heads = 2, causal = true },)"); }

TEST(Attention, OfTheSampleItself) {
  check_gradients("[3, 4]", R"(
{ type = "attention", heads = 2 },
{ type = "flatten" },
{ type = "linear", units = 3 },
{ type = "softmax_cross_entropy" },)",
                  {.wrap = false});
}

TEST(Attention, ShapesParametersAndFlops) {
  const LayerFacts facts = layer_facts("[3, 8]", R"({ type = "attention", heads = 2 })");
  EXPECT_EQ(facts.output, (Shape{3, 8}));
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.in_proj_weight", {24, 8}},
                                                          {"x.in_proj_bias", {24}},
                                                          {"x.out_proj.weight", {8, 8}},
                                                          {"x.out_proj.bias", {8}}}));
  EXPECT_EQ(facts.flops, 2.0 * 3 * 8 * 24 + 2.0 * 3 * 8 * 8 + 2 * 2.0 * 3 * 3 * 8);
  EXPECT_EQ(layer_facts("[3, 8]", R"({ type = "attention", heads = 2, causal = true })").flops,
            2.0 * 3 * 8 * 24 + 2.0 * 3 * 8 * 8 + 2 * 2.0 * (1 + 2 + 3) * 8);
}

TEST(Attention, BeginsAsPyTorchDoes) {
  const NetworkText read = network_around("[3, 96]", R"({ type = "attention", heads = 2 })", "");
  ASSERT_TRUE(read.network);
  const auto largest = [&](ParameterIndex p) {
    std::vector<float> values(static_cast<size_t>(read.network->parameters()[static_cast<size_t>(p)].shape.elements()));
    read.network->initialize(p, 1, 0, values);
    float m = 0;
    for (float v : values) m = std::max(m, std::abs(v));
    return m;
  };
  EXPECT_NEAR(largest(0), 0.125f, 1e-3f);  // √(6 / (96 + 3·96))
  EXPECT_EQ(largest(1), 0.0f);
  EXPECT_NEAR(largest(2), 0.10206f, 1e-3f);  // 1 / √96
  EXPECT_EQ(largest(3), 0.0f);
}

TEST(Attention, Errors) {
  const std::string error = layer_error("[3, 8]", R"({ type = "attention", heads = 3 })");
  EXPECT_NE(error.find("layer 'x' (attention): 3 heads do not divide the 8 numbers of a position of its input 'input'"),
            std::string::npos)
      << error;
  EXPECT_NE(layer_error("[3, 8]", R"({ type = "attention" })").find("needs 'heads'"), std::string::npos);
  EXPECT_NE(layer_error("[3, 8]", R"({ type = "attention", heads = 0 })").find("'heads'"), std::string::npos);
  EXPECT_NE(layer_error("[8]", R"({ type = "attention", heads = 2 })").find("[positions, numbers]"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
