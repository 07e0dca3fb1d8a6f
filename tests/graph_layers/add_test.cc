#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Add, Gradient) {
  check_gradients("[5]",
                  R"({ name = "a", type = "linear", units = 5 }, { type = "add", inputs = ["a", "front", "input"] },)");
}

TEST(Add, FusedActivation) {
  check_gradients("[3, 4, 4]", R"({ name = "a", type = "conv2d", filters = 3, kernel = 3, pad = 1 },
                                  { type = "add", inputs = ["a", "front"], activation = "relu" },)");
  check_gradients(
      "[5]",
      R"({ name = "a", type = "linear", units = 5 }, { type = "add", inputs = ["a", "front"], activation = "silu" },)");
}

TEST(Add, TheSameTwice) { check_gradients("[5]", R"({ type = "add", inputs = ["front", "front"] },)"); }

TEST(Add, Errors) {
  const std::string before = R"({ name = "a", type = "linear", units = 5 }, )";
  EXPECT_EQ(
      layer_error("[3]", R"({ type = "add", inputs = ["a", "input"] })", before),
      "net.toml:4:45: error: layer 'x' (add): its inputs must have equal shapes: input 'a' (linear) of shape [5], but "
      "input 'input' (the sample) of shape [3]");
  EXPECT_NE(layer_error("[3]", R"({ type = "add" })").find("takes two or more inputs"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
