#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Mul, Gradient) {
  check_gradients("[5]", R"({ name = "a", type = "linear", units = 5 }, { type = "mul", inputs = ["a", "front"] },)");
}

TEST(Mul, OfThreeWithTheSample) {
  check_gradients("[5]",
                  R"({ name = "a", type = "linear", units = 5 }, { type = "mul", inputs = ["a", "front", "input"] },)");
}

TEST(Mul, FollowedByAnActivation) {
  check_gradients("[3, 4, 4]", R"({ name = "a", type = "conv2d", filters = 3, kernel = 3, pad = 1 },
                                  { type = "mul", inputs = ["a", "front"], activation = "relu" },)");
}

TEST(Mul, AsAGate) {
  check_gradients("[5]", R"({ name = "a", type = "linear", units = 5, activation = "sigmoid" },
                            { type = "mul", inputs = ["a", "front"] },)");
}

TEST(Mul, TheSameTwice) { check_gradients("[5]", R"({ type = "mul", inputs = ["front", "front"] },)"); }

TEST(Mul, Errors) {
  const std::string before = R"({ name = "a", type = "linear", units = 5 }, )";
  EXPECT_EQ(
      layer_error("[3]", R"({ type = "mul", inputs = ["a", "input"] })", before),
      "net.toml:4:45: error: layer 'x' (mul): its inputs must have equal shapes: input 'a' (linear) of shape [5], but "
      "input 'input' (the sample) of shape [3]");
  EXPECT_NE(layer_error("[3]", R"({ type = "mul" })").find("takes two or more inputs"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
