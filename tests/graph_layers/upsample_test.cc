#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Upsample, Gradient) {
  check_gradients("[2, 3, 4]", R"({ type = "upsample", scale = 2 }, { type = "conv2d", filters = 2, kernel = 3 },)");
  check_gradients("[2, 3, 4]", R"({ type = "upsample", scale = [2, 3], mode = "bilinear", activation = "relu" },
                                  { type = "conv2d", filters = 2, kernel = 3 },)");
}

TEST(Upsample, BetweenConvolutions) {
  for (const char* mode : {"nearest", "bilinear"})
    check_gradients("[3, 4, 4]", fmt::format(R"({{ type = "conv2d", filters = 16, kernel = 1 }},
                                                {{ type = "upsample", scale = 2, mode = "{}" }},
                                                {{ type = "conv2d", filters = 2, kernel = 3 }},)",
                                             mode));
}

TEST(Upsample, Shapes) {
  EXPECT_EQ(layer_facts("[2, 3, 4]", R"({ type = "upsample", scale = 3 })").output, (Shape{2, 9, 12}));
  EXPECT_EQ(layer_facts("[2, 3, 4]", R"({ type = "upsample", scale = [1, 2], mode = "bilinear" })").output,
            (Shape{2, 3, 8}));
}

TEST(Upsample, Errors) {
  EXPECT_NE(layer_error("[2, 3]", R"({ type = "upsample", scale = 3 })").find("needs [channels, height, width]"),
            std::string::npos);
  EXPECT_NE(layer_error("[2, 3, 4]", R"({ type = "upsample", scale = 2, mode = "bilinaer" })").find("bilinear"),
            std::string::npos);
  EXPECT_NE(layer_error("[2, 3, 4]", R"({ type = "upsample", scale = 0 })").find("'scale'"), std::string::npos);
  EXPECT_NE(layer_error("[2, 3, 4]", R"({ type = "upsample", scale = 16777216 })").find("2^40 elements"),
            std::string::npos);
  EXPECT_NE(layer_error("[2, 4, 1048576]", R"({ type = "upsample", scale = [1, 16777216] })")
                .find("'scale' of 16777216 makes more than 2^40"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
