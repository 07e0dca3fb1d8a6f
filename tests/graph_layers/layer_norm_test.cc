#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(LayerNorm, Gradient) {
  check_gradients("[5]", R"({ type = "layer_norm" },)");
  check_gradients("[5]", R"({ type = "layer_norm", epsilon = 0.1, activation = "relu" },)");
  check_gradients("[3, 5]", R"({ type = "layer_norm" }, { type = "linear", units = 6 },)");
  check_gradients("[3, 4, 5]", R"({ type = "layer_norm", activation = "gelu" },)");
}

TEST(LayerNorm, WithoutAffine) {
  check_gradients("[5]", R"({ type = "layer_norm", affine = false },)");
  check_gradients("[3, 4, 5]", R"({ type = "layer_norm", affine = false },)");
}

TEST(LayerNorm, BetweenABranchAndItsSum) {
  check_gradients(
      "[3, 6]",
      R"({ type = "layer_norm" }, { name = "a", type = "linear", units = 6 }, { type = "add", inputs = ["a", "front"] },)");
}

TEST(LayerNorm, RightOnTheSample) {
  check_gradients("[5]",
                  R"({ type = "layer_norm" }, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)",
                  {.wrap = false});
}

TEST(LayerNorm, Parameters) {
  EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "layer_norm" })").parameters,
            (std::vector<ParameterInfo>{{"x.weight", {5}}, {"x.bias", {5}}}));
  EXPECT_TRUE(layer_facts("[3, 4]", R"({ type = "layer_norm", affine = false })").parameters.empty());
}

TEST(LayerNorm, Errors) {
  EXPECT_NE(layer_error("[3]", R"({ type = "layer_norm", epsilon = 0 })")
                .find("'epsilon' in layer 'x' (layer_norm) must be above 0"),
            std::string::npos);
  EXPECT_NE(layer_error("[3]", R"({ type = "layer_norm", groups = 3 })").find("unknown key 'groups'"),
            std::string::npos);
  EXPECT_NE(layer_error("[3]", R"({ type = "layer_norm", inputs = ["input", "input"] })").find("takes one input"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
