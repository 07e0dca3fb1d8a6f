#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(PositionEmbedding, Gradient) {
  check_gradients("[4, 3]", R"({ type = "position_embedding", length = 4, activation = "tanh" },)");
}

TEST(PositionEmbedding, LongerThanTheSequence) {
  check_gradients("[3, 5]", R"({ type = "position_embedding", length = 6, activation = "tanh" },)");
}

TEST(PositionEmbedding, ShapesAndParameters) {
  const LayerFacts facts = layer_facts("[3, 5]", R"({ type = "position_embedding", length = 8 })");
  EXPECT_EQ(facts.output, (Shape{3, 5}));
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight", {8, 5}}}));
}

TEST(PositionEmbedding, Errors) {
  const std::string error = layer_error("[9, 5]", R"({ type = "position_embedding", length = 8 })");
  EXPECT_NE(error.find("layer 'x' (position_embedding): has a length of 8, but its input 'input' (the sample) of shape "
                       "[9, 5] has 9 positions"),
            std::string::npos)
      << error;
  EXPECT_NE(layer_error("[5]", R"({ type = "position_embedding", length = 8 })").find("[positions, numbers]"),
            std::string::npos);
  EXPECT_NE(layer_error("[9, 5]", R"({ type = "position_embedding" })").find("needs 'length'"), std::string::npos);
  EXPECT_NE(layer_error("[9, 5]", R"({ type = "position_embedding", length = 0 })").find("'length'"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
