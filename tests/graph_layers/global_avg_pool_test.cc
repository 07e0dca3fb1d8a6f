#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(GlobalAvgPool, Gradient) { check_gradients("[3, 4, 5]", R"({ type = "global_avg_pool" },)"); }

TEST(GlobalAvgPool, Shapes) {
  EXPECT_EQ(layer_facts("[3, 4, 5]", R"({ type = "global_avg_pool" })").output, (Shape{3}));
  EXPECT_NE(layer_error("[12]", R"({ type = "global_avg_pool" })").find("has 1 axis"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
