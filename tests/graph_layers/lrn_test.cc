#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Lrn, Gradient) {
  check_gradients("[6, 3, 4]", R"({ type = "lrn", alpha = 2.0 },)");
  check_gradients("[6, 3, 4]", R"({ type = "lrn", size = 3, alpha = 1.5, beta = 0.4, k = 2.0 },)");
  check_gradients("[6, 3, 4]", R"({ type = "lrn", alpha = 2.0, activation = "relu" },)");
}

TEST(Lrn, OfAnEvenSize) {
  check_gradients("[6, 3, 4]", R"({ type = "lrn", size = 4, alpha = 2.0, beta = 0.5 },)");
  check_gradients("[6, 3, 4]", R"({ type = "lrn", size = 2, alpha = 2.0, beta = 1.0 },)");
}

TEST(Lrn, WiderThanTheChannels) { check_gradients("[3, 4, 4]", R"({ type = "lrn", size = 16, alpha = 2.0 },)"); }

TEST(Lrn, OfOneMoreAxis) { check_gradients("[5, 4]", R"({ type = "lrn", size = 3, alpha = 2.0 },)"); }

TEST(Lrn, BetweenAConvolutionAndAPool) {
  check_gradients("[3, 6, 6]", R"({ type = "conv2d", filters = 16, kernel = 3 }, { type = "lrn", alpha = 1.0 },
                                  { type = "max_pool2d", kernel = 2 },)");
}

TEST(Lrn, KeepsTheShape) {
  const LayerFacts facts = layer_facts("[3, 5, 4]", R"({ type = "lrn" })");
  EXPECT_EQ(facts.output, (Shape{3, 5, 4}));
  EXPECT_TRUE(facts.parameters.empty());
}

TEST(Lrn, Errors) {
  const auto error = [](const char* keys) {
    return layer_error("[3, 4, 4]", fmt::format(R"({{ type = "lrn", {} }})", keys));
  };
  EXPECT_NE(error("size = 0").find("'size' in layer 'x' (lrn) must be "), std::string::npos);
  EXPECT_NE(error("alpha = -1").find("'alpha' in layer 'x' (lrn) must be "), std::string::npos);
  EXPECT_NE(error("beta = -0.5").find("'beta' in layer 'x' (lrn) must be "), std::string::npos);
  EXPECT_NE(error("k = 0").find("'k' in layer 'x' (lrn) must be "), std::string::npos);
  EXPECT_NE(error("sizes = 3").find("did you mean 'size'?"), std::string::npos);
  EXPECT_NE(layer_error("[3]", R"({ type = "lrn" })").find("layer 'x' (lrn): needs [channels, ...] with at least two"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
