#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Transpose, Gradient) {
  check_gradients("[3, 4, 5]", R"({ type = "transpose", order = [3, 1, 2] }, { type = "linear", units = 3 },)");
  check_gradients("[3, 4]", R"({ type = "transpose", order = [2, 1], activation = "relu" },
                               { type = "linear", units = 2 },)");
}

TEST(Transpose, BehindAConvolution) {
  check_gradients("[3, 5, 4]", R"({ type = "conv2d", filters = 16, kernel = 3, pad = 1 },
                                  { type = "transpose", order = [2, 3, 1] }, { type = "linear", units = 2 },)");
}

TEST(Transpose, Shapes) {
  EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "transpose", order = [2, 3, 1] })").output, (Shape{4, 5, 3}));
  EXPECT_EQ(layer_facts("[3]", R"({ type = "transpose", order = [1] })").output, (Shape{3}));
}

TEST(Transpose, Errors) {
  const auto error = [](const std::string& order) {
    return layer_error("[3, 4]", R"({ type = "transpose", order = )" + order + " }");
  };
  for (const char* order : {"[0, 1]", "[1, 1]", "[1, 3]", "[-1, 1]", "[]"})
    EXPECT_NE(error(order).find("'order' must name each axis once"), std::string::npos) << order;
  EXPECT_NE(error("[1]").find("'order' names 1 axes, but its input 'input' (the sample) of shape [3, 4] has 2"),
            std::string::npos);
  EXPECT_NE(error("\"ba\"").find("expected a list of integers"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
