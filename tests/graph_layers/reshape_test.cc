#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Reshape, Gradient) {
  check_gradients("[3, 4, 5]", R"({ type = "reshape", shape = [6, -1] }, { type = "linear", units = 4 },)");
  check_gradients("[12]", R"({ type = "reshape", shape = [3, 2, 2], activation = "tanh" },
                             { type = "conv2d", filters = 2, kernel = 2 },)");
}

TEST(Reshape, OfTheSampleItself) {
  check_gradients("[3, 4, 5]", R"({ type = "reshape", shape = [12, 5], inputs = ["input"] },
                                  { name = "a", type = "linear", units = 5 },
                                  { type = "reshape", shape = [12, -1], inputs = ["front"] },
                                  { type = "add", inputs = ["a", "reshape2"] },)");
}

TEST(Reshape, Shapes) {
  EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "reshape", shape = [60] })").output, (Shape{60}));
  EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "reshape", shape = [5, -1, 1, 2] })").output, (Shape{5, 6, 1, 2}));
}

TEST(Reshape, Errors) {
  const auto error = [](const std::string& shape) {
    return layer_error("[3, 4]", R"({ type = "reshape", shape = )" + shape + " }");
  };
  EXPECT_NE(error("[5, 2]").find("'shape' [5, 2] does not hold the 12 elements"), std::string::npos);
  EXPECT_NE(error("[5, -1]").find("'shape' [5, -1] does not hold the 12 elements"), std::string::npos);
  EXPECT_NE(error("[-1, -1]").find("-1 at most once"), std::string::npos);
  EXPECT_NE(error("[0, -1]").find("extents of 1 or more"), std::string::npos);
  EXPECT_NE(error("[]").find("'shape' is empty"), std::string::npos);
  EXPECT_NE(error("[16777216, 16777216, 16777216, 16777216]").find("more than 2^40 elements"), std::string::npos);
  EXPECT_NE(error("[-2]").find("must be from -1"), std::string::npos);
  EXPECT_NE(error("12").find("expected a list of integers"), std::string::npos);
  EXPECT_NE(layer_error("[3, 4]", R"({ type = "reshape" })").find("needs 'shape'"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
