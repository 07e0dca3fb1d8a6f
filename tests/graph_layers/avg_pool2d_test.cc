#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(AvgPool2d, Gradient) { check_gradients("[3, 6, 6]", R"({ type = "avg_pool2d", kernel = 2 },)"); }

TEST(AvgPool2d, Padding) {
  check_gradients("[3, 6, 6]", R"({ type = "avg_pool2d", kernel = 3, stride = 2, pad = 1 },)");
  check_gradients("[3, 6, 6]",
                  R"({ type = "avg_pool2d", kernel = 3, stride = 2, pad = 1, count_include_pad = false },)");
}

TEST(AvgPool2d, Ceil) {
  check_gradients("[3, 6, 6]", R"({ type = "avg_pool2d", kernel = 3, stride = 2, ceil = true },)");
  EXPECT_EQ(layer_facts("[3, 6, 6]", R"({ type = "avg_pool2d", kernel = 3, stride = 2, ceil = true })").output,
            (Shape{3, 3, 3}));
}

}  // namespace
}  // namespace dtrain::graph
