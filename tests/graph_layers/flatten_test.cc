#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Flatten, Gradient) {
  check_gradients("[3, 4, 5]", R"({ type = "flatten" }, { type = "linear", units = 4, activation = "relu" },)");
}

TEST(Flatten, OfTheSampleItself) {
  check_gradients("[3, 4, 5]", R"({ type = "flatten", inputs = ["input"] }, { type = "linear", units = 4 },
                                  { name = "other", type = "flatten", inputs = ["front"] },
                                  { type = "concat", inputs = ["linear1", "other"] },)");
}

TEST(Flatten, WithAnActivation) { check_gradients("[3, 4, 5]", R"({ type = "flatten", activation = "tanh" },)"); }

TEST(Flatten, Shapes) { EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "flatten" })").output, (Shape{60})); }

}  // namespace
}  // namespace dtrain::graph
