#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Dot, Gradient) {
  check_gradients("[12]", R"({ name = "a", type = "reshape", shape = [3, 4] },
                             { name = "b", type = "linear", inputs = ["front"], units = 8 },
                             { name = "c", type = "reshape", shape = [2, 4] },
                             { type = "dot", inputs = ["a", "c"] }, { type = "flatten" },)");
}

TEST(Dot, OfOneRowWithMany) {
  check_gradients("[12]", R"({ name = "a", type = "reshape", shape = [3, 4] },
                             { name = "b", type = "linear", inputs = ["front"], units = 4 },
                             { type = "dot", inputs = ["b", "a"] }, { type = "flatten" },)");
}

TEST(Dot, WithItself) {
  check_gradients("[12]", R"({ name = "a", type = "reshape", shape = [3, 4] }, { type = "dot", inputs = ["a", "a"] },
                             { type = "flatten" },)");
}

TEST(Dot, OfRowsWithThoseBefore) {
  check_gradients("[12]", R"({ name = "a", type = "reshape", shape = [4, 3] }, { type = "dot" },)");
}

TEST(Dot, Errors) {
  EXPECT_NE(layer_error("[12]", R"({ type = "dot" })").find("needs rows [R, D]"), std::string::npos);
  EXPECT_NE(layer_error("[1, 12]", R"({ type = "dot" })").find("needs two rows or more"), std::string::npos);
  EXPECT_NE(layer_error("[2, 6]", R"({ type = "dot", inputs = ["a", "input"] })",
                        R"({ name = "a", type = "slice", end = 5, axis = 2 }, )")
                .find("must be of one length"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
