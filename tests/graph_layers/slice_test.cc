#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Slice, Gradient) {
  check_gradients("[7]", R"({ type = "slice", begin = 2, end = -1 },)");
  check_gradients("[3, 5]", R"({ name = "a", type = "slice", axis = -1, extent = 2 },
                               { name = "b", type = "slice", axis = 2, begin = -3, inputs = ["front"] },
                               { type = "concat", axis = 2, inputs = ["b", "a"] },)");
}

TEST(Slice, OfChannels) {
  check_gradients("[3, 4, 4]", R"({ name = "c", type = "conv2d", filters = 32, kernel = 1 },
                                  { name = "a", type = "slice", end = 16 },
                                  { name = "b", type = "slice", begin = 16, activation = "tanh", inputs = ["c"] },
                                  { type = "add", inputs = ["a", "b"] },)");
  check_gradients("[3, 4, 4]", R"({ name = "c", type = "conv2d", filters = 9, kernel = 1 },
                                  { type = "slice", begin = 1, extent = 3 },)");
}

TEST(Slice, Shapes) {
  const auto shape = [](const std::string& keys) {
    return layer_facts("[6, 4]", R"({ type = "slice", )" + keys + " }").output;
  };
  EXPECT_EQ(shape("begin = 2"), (Shape{4, 4}));
  EXPECT_EQ(shape("begin = -2"), (Shape{2, 4}));
  EXPECT_EQ(shape("end = -2"), (Shape{4, 4}));
  EXPECT_EQ(shape("begin = 1, extent = 5"), (Shape{5, 4}));
  EXPECT_EQ(shape("axis = 2, begin = 3"), (Shape{6, 1}));
  EXPECT_EQ(shape("axis = -2, begin = -6, end = 1"), (Shape{1, 4}));
}

TEST(Slice, Errors) {
  const auto error = [](const std::string& keys) {
    return layer_error("[6, 4]", R"({ type = "slice", )" + keys + " }");
  };
  EXPECT_NE(error("begin = 6").find("elements 6 to 6 (not included) of axis 1, which has 6"), std::string::npos);
  for (const char* keys : {"begin = -7", "end = 7", "end = 0", "begin = 2, end = 2", "begin = 3, extent = 4"})
    EXPECT_NE(error(keys).find("there are none, or not all"), std::string::npos) << keys;
  EXPECT_NE(error("axis = 3").find("'axis' must be from 1 to 2"), std::string::npos);
  EXPECT_NE(error("axis = 0").find("'axis' must be from 1 to 2"), std::string::npos);
  EXPECT_NE(error("end = 3, extent = 3").find("'end' or 'extent', not both"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
