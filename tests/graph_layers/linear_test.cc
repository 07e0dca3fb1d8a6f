#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Linear, Gradient) { check_gradients("[5]", R"({ type = "linear", units = 7 },)"); }

TEST(Linear, WithoutBias) {
  check_gradients("[5]", R"({ type = "linear", units = 7, bias = false, activation = "tanh" },)");
}

TEST(Linear, LastAxisOfSeveral) {
  check_gradients("[3, 5]", R"({ type = "linear", units = 4, activation = "relu" },)");
}

TEST(Linear, ShapesParametersAndFlops) {
  const LayerFacts facts = layer_facts("[3, 5]", R"({ type = "linear", units = 4 })");
  EXPECT_EQ(facts.output, (Shape{3, 4}));
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight", {4, 5}}, {"x.bias", {4}}}));
  EXPECT_EQ(facts.flops, 2.0 * 3 * 5 * 4);
  EXPECT_EQ(layer_facts("[5]", R"({ type = "linear", units = 4, bias = false })").parameters.size(), 1u);
}

TEST(Linear, Errors) {
  EXPECT_NE(layer_error("[5]", R"({ type = "linear" })").find("needs 'units'"), std::string::npos);
  EXPECT_NE(layer_error("[5]", R"({ type = "linear", units = 0 })").find("from 1 to"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
