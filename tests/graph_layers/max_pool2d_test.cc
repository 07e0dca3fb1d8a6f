#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(MaxPool2d, Gradient) { check_gradients("[3, 6, 6]", R"({ type = "max_pool2d", kernel = 2 },)"); }

TEST(MaxPool2d, OverlapPadAndCeil) {
  check_gradients("[3, 7, 6]", R"({ type = "max_pool2d", kernel = 3, stride = 2, pad = 1, ceil = true },)");
}

TEST(MaxPool2d, Shapes) {
  EXPECT_EQ(layer_facts("[3, 9, 9]", R"({ type = "max_pool2d", kernel = 2 })").output, (Shape{3, 4, 4}));
  EXPECT_EQ(layer_facts("[3, 9, 9]", R"({ type = "max_pool2d", kernel = 2, ceil = true })").output, (Shape{3, 5, 5}));
  EXPECT_EQ(layer_facts("[3, 9, 8]", R"({ type = "max_pool2d", kernel = [3, 2], stride = 1 })").output,
            (Shape{3, 7, 7}));
}

TEST(MaxPool2d, Errors) {
  EXPECT_EQ(
      layer_error("[3, 4, 4]", R"({ type = "max_pool2d", kernel = 5 })",
                  R"({ name = "c", type = "conv2d", filters = 2, kernel = 1 }, { type = "relu" }, )"),
      "net.toml:4:122: error: layer 'x' (max_pool2d): a kernel of 5 by 5 is larger than its input 'relu1' (relu) of "
      "shape [2, 4, 4], which 'c' (conv2d) made");
  EXPECT_NE(layer_error("[3, 4, 4]", R"({ type = "max_pool2d", kernel = 3, pad = 2 })").find("at most half the kernel"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
