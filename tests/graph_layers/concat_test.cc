#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Concat, Gradient) {
  check_gradients(
      "[5]",
      R"({ name = "a", type = "linear", units = 3 }, { type = "concat", inputs = ["a", "front", "input", "a"] },)");
}

TEST(Concat, OfChannels) {
  check_gradients("[3, 4, 4]", R"({ name = "a", type = "conv2d", filters = 8, kernel = 1, activation = "relu" },
                                  { name = "b", type = "max_pool2d", kernel = 3, stride = 1, pad = 1, inputs = ["front"] },
                                  { type = "concat", inputs = ["a", "b"] },)");
}

TEST(Concat, AnotherAxis) {
  check_gradients(
      "[3, 4]",
      R"({ name = "a", type = "linear", units = 2 }, { type = "concat", axis = 2, inputs = ["a", "front"] },)");
  EXPECT_EQ(layer_facts("[3, 4]", R"({ type = "concat", axis = -1, inputs = ["input", "input"] })").output,
            (Shape{3, 8}));
  EXPECT_EQ(layer_facts("[3, 4]", R"({ type = "concat", inputs = ["input", "input"] })").output, (Shape{6, 4}));
}

TEST(Concat, Errors) {
  EXPECT_NE(layer_error("[3, 4]", R"({ type = "concat", axis = 0, inputs = ["input", "input"] })")
                .find("'axis' must be from 1 to 2"),
            std::string::npos);
  EXPECT_NE(layer_error("[3, 4]", R"({ type = "concat", inputs = ["input", "a"] })",
                        R"({ name = "a", type = "linear", units = 2 }, )")
                .find("may differ along axis 1 only"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
