#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Embedding, Gradient) {
  check_gradients("[6]", R"(
{ type = "embedding", vocab = 5, dim = 4 },
{ type = "linear", units = 3, activation = "tanh" },
{ type = "flatten" },
{ type = "linear", units = 3 },
{ type = "softmax_cross_entropy" },)",
                  {.wrap = false});
}

TEST(Embedding, GradientOfTokenInALine) {
  check_gradients("[2, 3]", R"(
{ type = "embedding", vocab = 40, dim = 5, activation = "tanh" },
{ type = "flatten" },
{ type = "linear", units = 3 },
{ type = "softmax_cross_entropy" },)",
                  {.wrap = false});
}

TEST(Embedding, ShapesAndParameters) {
  const LayerFacts facts = layer_facts("[7]", R"({ type = "embedding", vocab = 11, dim = 4 })");
  EXPECT_EQ(facts.output, (Shape{7, 4}));
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight", {11, 4}}}));
  EXPECT_EQ(layer_facts("[2, 3]", R"({ type = "embedding", vocab = 11, dim = 4 })").output, (Shape{2, 3, 4}));
}

TEST(Embedding, SampleIsTokens) {
  const NetworkText read = network_around("[7]", R"({ type = "embedding", vocab = 11, dim = 4 })", "");
  ASSERT_TRUE(read.network);
  EXPECT_EQ(read.network->input_dtype(), DType::kI32);
  EXPECT_EQ(read.network->input_classes(), 11);
}

TEST(Embedding, Errors) {
  EXPECT_NE(layer_error("[5]", R"({ type = "embedding", dim = 4 })").find("needs 'vocab'"), std::string::npos);
  EXPECT_NE(layer_error("[5]", R"({ type = "embedding", vocab = 4 })").find("needs 'dim'"), std::string::npos);
  EXPECT_NE(layer_error("[5]", R"({ type = "embedding", vocab = 0, dim = 4 })").find("'vocab'"), std::string::npos);
  EXPECT_NE(layer_error("[5]", R"({ type = "embedding", vocab = 4, dim = -1 })").find("'dim'"), std::string::npos);
}

// Nothing could be trained through a look-up.
TEST(Embedding, OfTrainedNumbersIsAnError) {
  const std::string error = layer_error("[5]", R"({ type = "embedding", vocab = 4, dim = 2 })",
                                        R"({ name = "fc", type = "linear", units = 5 },)");
  EXPECT_NE(error.find("layer 'x' (embedding)"), std::string::npos) << error;
  EXPECT_NE(error.find("'fc'"), std::string::npos) << error;
}

}  // namespace
}  // namespace dtrain::graph
